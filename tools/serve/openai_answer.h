// OpenAiAnswer: the answer to one request, in OpenAI's form: one object, or a stream of server-sent events.
//
// May be used by any thread. The texts of one request may come from several engines at once.
#pragma once

#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/serve/model_counts.h"
#include "tools/serve/openai_request.h"

namespace rondo::serve {

// {"error": {"message", "type", ...}}
HttpResponse OpenAiError(int status, const std::string& sentence);

class OpenAiAnswer {
 public:
  // An answer with `texts` texts. `counts` must outlive it. Each piece moves a stream's deadline by
  // `patience`.
  OpenAiAnswer(std::shared_ptr<Reply> reply, const TextRequest& request, size_t texts, ModelCounts* counts,
               std::chrono::milliseconds patience);

  void Add(size_t text, const TextPiece& piece);
  void End(size_t text, const TextEnd& end);
  // Sends `response` instead, if no text will come.
  void Fail(HttpResponse response);
  // Nobody waits for the rest of the answer.
  bool closed() const;

 private:
  struct Text {
    std::string text, reason;
    std::vector<TokenChance> tokens;
    std::vector<std::vector<TokenChance>> likeliest;
    bool begun = false;
  };
  nlohmann::json Head(bool chunk) const;
  nlohmann::json Choice(size_t index, const Text& text) const;
  nlohmann::json Delta(size_t index, const TextPiece& piece, const std::string& reason);
  nlohmann::json Chances(const Text& text) const;
  nlohmann::json Usage() const;
  void Event(const nlohmann::json& event);
  void Finish();
  void Refuse(HttpResponse response);

  const std::shared_ptr<Reply> reply_;
  const bool is_chat_, streams_, usage_, chances_;
  const std::string model_, id_;
  const int64_t created_;
  ModelCounts* const counts_;
  const std::chrono::milliseconds patience_;
  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Text> texts_;
  size_t left_;
  int64_t prompt_tokens_ = 0, tokens_ = 0;
  bool begun_ = false, ended_ = false;
};

}  // namespace rondo::serve
