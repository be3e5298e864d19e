// ModelTexts: a language model's tokens as text, and back.
//
// Uses the model's tokenizer.json if its folder has one. Otherwise tokens are bytes if the model has at most
// 256, and else numbers separated by spaces, as in `rondo generate --ids`.
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
  // `folder`: the model's folder, or "". `words`: the number of tokens in its vocabulary.
  static Result<std::unique_ptr<ModelTexts>> Open(const std::string& python, const std::string& folder,
                                                  int64_t words);

  // Tokens that end a text.
  const std::set<int64_t>& ends() const { return ends_; }
  bool has_chat() const { return chat_; }
  // `special`: with the tokens that the tokenizer adds around a text, for example its first one. May be used
  // by any thread.
  Result<Tokens> Encode(const std::string& text, bool special);
  // The prompt that the model's chat template makes of messages. May be used by any thread.
  Result<std::string> Chat(const nlohmann::json& messages);
  TextGrammars& grammars() { return grammars_; }
  // The text of each token by itself. May be used by any thread.
  Result<std::vector<std::string>> Names(const Tokens& tokens);

  struct Step {
    uint64_t stream = 0;  // the caller's number for one text
    Tokens tokens;        // the new ones
    bool ends = false;
  };
  // The text of each step that is complete: bytes of an incomplete character wait for the rest. Must be
  // called by one thread at a time.
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
  TextWorker reader_, writer_;  // two, so that prompts do not delay generated text
  TextGrammars grammars_;
  std::map<uint64_t, std::string> pending_;  // bytes of incomplete characters
};

}  // namespace rondo::serve
