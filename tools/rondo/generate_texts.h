// The texts of `generate`: prompts from files and the command line, as bytes or token numbers, and the
// generated text on standard output.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "tools/rondo/decoder.h"

namespace rondo::tools {

// The contents of a file, or of standard input for "-". A pipe may deliver up to 16 MiB. kIo, naming the
// file.
Result<std::string> ReadPromptFile(const std::string& path);

// The lines of `text`, without line ends; the last may lack one.
std::vector<std::string> LinesOf(const std::string& text);

// Parses `text` into tokens: its bytes, or with `ids` numbers separated by spaces. kInvalidArgument if there
// are none, or if a token is not below `words`; errors call the text `what`.
Result<Tokens> ParseTokens(const std::string& text, bool ids, int64_t words, const std::string& what);

// Writes to standard output at once. kIo if that fails.
Status WriteTokens(const Tokens& tokens, bool ids);

}  // namespace rondo::tools
