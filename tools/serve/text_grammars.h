// TextGrammars: which tokens may come next in texts that follow a grammar.
//
// PyPI's llguidance, in a Python process of its own (text_worker.py) that starts with the first grammar: what
// is slow to compile, or ends the process, holds up or ends texts with grammars alone.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/status.h"
#include "tools/rondo/decoder.h"
#include "tools/serve/text_worker.h"

namespace rondo::serve {

using tools::Tokens;

struct Grammar {
  std::string kind;  // as llguidance names them: "json_schema", "regex", "choice", "grammar"
  std::string text;
};

// Any thread.
class TextGrammars {
 public:
  // As ModelTexts::Open.
  TextGrammars(const std::string& python, const std::string& folder, int64_t words)
      : worker_(python, folder), words_(words) {}

  // Whether texts can follow it; compiled, it is kept for those that do. kInvalidArgument: the library's
  // sentence.
  Status Check(const Grammar& grammar);

  struct Step {
    uint64_t text = 0;                // a number of the caller's
    const Grammar* begins = nullptr;  // of a text that begins
    Tokens tokens;                    // that came since
  };
  struct Next {
    Status status;                  // kAborted: what was known of the text is lost
    bool complete = false;          // nothing can follow
    std::vector<uint32_t> allowed;  // otherwise bit i of word i / 32: token i may follow
  };
  // One exchange for all of them.
  std::vector<Next> Follow(const std::vector<Step>& steps);
  // A text that has ended.
  void Forget(uint64_t text);

 private:
  Result<std::vector<Next>> Ask(const std::vector<Step>& steps);

  TextWorker worker_;
  const int64_t words_;
  std::mutex mutex_;
  std::vector<uint64_t> gone_;  // that the process does not know of yet
};

}  // namespace rondo::serve
