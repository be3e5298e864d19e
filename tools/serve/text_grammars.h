// TextGrammars: the tokens that may come next in texts that follow a grammar.
//
// Uses PyPI's llguidance in a separate Python process (text_worker.py), which starts with the first grammar.
// So a grammar that compiles slowly, or crashes the process, only affects texts with grammars.
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
  std::string kind;  // llguidance's names: "json_schema", "regex", "choice", "grammar"
  std::string text;
};

// May be used by any thread.
class TextGrammars {
 public:
  // As ModelTexts::Open.
  TextGrammars(const std::string& python, const std::string& folder, int64_t words)
      : worker_(python, folder), words_(words) {}

  // Compiles the grammar, and keeps it for the texts that follow it. kInvalidArgument, with the library's
  // message, if texts cannot follow it.
  Status Check(const Grammar& grammar);

  struct Step {
    uint64_t text = 0;                // the caller's number for the text
    const Grammar* begins = nullptr;  // set if the text begins
    Tokens tokens;                    // the new ones
  };
  struct Next {
    Status status;                  // kAborted: the text's state in the process is lost
    bool complete = false;          // nothing can follow
    std::vector<uint32_t> allowed;  // otherwise bit i of word i / 32: token i may follow
  };
  // One exchange with the process for all steps.
  std::vector<Next> Follow(const std::vector<Step>& steps);
  // Call this when a text has ended.
  void Forget(uint64_t text);

 private:
  Result<std::vector<Next>> Ask(const std::vector<Step>& steps);

  TextWorker worker_;
  const int64_t words_;
  std::mutex mutex_;
  std::vector<uint64_t> gone_;  // ended texts, not yet reported to the process
};

}  // namespace rondo::serve
