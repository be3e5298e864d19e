// ModelTexts: a language model's tokens as text, and back.
//
// By the model's tokenizer.json, where its folder has one; otherwise tokens are bytes, if the model has no
// more than 256, and else numbers with spaces between, as `rondo generate --ids` has them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "core/status.h"
#include "tools/rondo/decoder.h"
#include "tools/serve/text_grammars.h"
#include "tools/serve/text_worker.h"

namespace rondo::serve {

using tools::Tokens;

class ModelTexts {
 public:
  // `folder`: the model's, or "". `words`: how many tokens it knows.
  static Result<std::unique_ptr<ModelTexts>> Open(const std::string& python, const std::string& folder,
                                                  int64_t words);

  // Tokens that end a text.
  const std::set<int64_t>& ends() const { return ends_; }
  bool has_chat() const { return chat_; }
  // `special`: with what the tokenizer puts around a text, its first token say. Any thread.
  Result<Tokens> Encode(const std::string& text, bool special);
  // The prompt that the model's chat template makes of messages. Any thread.
  Result<std::string> Chat(const nlohmann::json& messages);
  TextGrammars& grammars() { return grammars_; }
  // Each token by itself. Any thread.
  Result<std::vector<std::string>> Names(const Tokens& tokens);

  struct Step {
    uint64_t stream = 0;  // a number of the caller's for one text
    Tokens tokens;        // that came
    bool ends = false;
  };
  // What is settled of each text: bytes of a character wait for the rest. One thread.
  Result<std::vector<std::string>> Decode(const std::vector<Step>& steps);

 private:
  enum class Kind { kTokenizer, kBytes, kNumbers };
  ModelTexts(const std::string& python, const std::string& folder, int64_t words)
      : words_(words), reader_(python, folder), writer_(python, folder), grammars_(python, folder, words) {}
  std::string DecodeHere(const Step& step);

  Kind kind_ = Kind::kBytes;
  const int64_t words_;
  bool chat_ = false;
  std::set<int64_t> ends_;
  TextWorker reader_, writer_;  // prompts do not hold up what is generated
  TextGrammars grammars_;
  std::map<uint64_t, std::string> pending_;  // bytes of no whole character yet
};

}  // namespace rondo::serve
