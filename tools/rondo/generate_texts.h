// Texts of `generate`: prompts from files and the command line, as bytes or as numbers of tokens, and what
// was generated on standard output.
#ifndef RONDO_TOOLS_RONDO_GENERATE_TEXTS_H_
#define RONDO_TOOLS_RONDO_GENERATE_TEXTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "tools/rondo/decoder.h"

namespace rondo::tools {

// The whole of a file, or, for "-", of standard input; a pipe will do, one of more than 16 MiB will not. kIo,
// naming it.
Result<std::string> ReadPromptFile(const std::string& path);

// Its lines, without their ends; the last may lack one.
std::vector<std::string> LinesOf(const std::string& text);

// `text` as tokens: its bytes, or, if `ids`, the numbers in it with space between. kInvalidArgument where it
// has none, or one that is not below `words`; `what` is what errors call it.
Result<Tokens> ParseTokens(const std::string& text, bool ids, int64_t words, const std::string& what);

// Writes to standard output at once. kIo if that fails.
Status WriteTokens(const Tokens& tokens, bool ids);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_GENERATE_TEXTS_H_
