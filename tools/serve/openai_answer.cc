#include "tools/serve/openai_answer.h"

#include <atomic>
#include <ctime>

#include "tools/serve/error_body.h"
#include "tools/serve/json_text.h"

namespace rondo::serve {

using nlohmann::json;

namespace {

std::string NewId(bool is_chat) {
  static std::atomic<uint64_t> next{0};
  static const auto start = static_cast<uint64_t>(std::time(nullptr));
  char text[64];
  std::snprintf(text, sizeof(text), "%s-%llx-%llx", is_chat ? "chatcmpl" : "cmpl",
                static_cast<unsigned long long>(start), static_cast<unsigned long long>(++next));
  return text;
}

json BytesOf(const std::string& text) {
  json bytes = json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

json ChatChance(const TokenChance& token) {
  return {{"token", token.text}, {"logprob", token.log_probability}, {"bytes", BytesOf(token.text)}};
}

}  // namespace

HttpResponse OpenAiError(int status, const std::string& sentence) {
  HttpResponse response =
      status == 429 || status == 503 ? BusyResponse(status, "") : ErrorResponse(status, "");
  const char* type = status < 500 && status != 429 ? "invalid_request_error"
                     : status == 429               ? "rate_limit_error"
                                                   : "server_error";
  response.body =
      JsonText({{"error", {{"message", sentence}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}});
  return response;
}

OpenAiAnswer::OpenAiAnswer(std::shared_ptr<Reply> reply, const TextRequest& request, size_t texts,
                           ModelCounts* counts, std::chrono::milliseconds patience)
    : reply_(std::move(reply)),
      is_chat_(request.is_chat),
      streams_(request.streams),
      usage_(request.usage),
      chances_(request.chances >= 0),
      model_(request.model),
      id_(NewId(request.is_chat)),
      created_(std::time(nullptr)),
      counts_(counts),
      patience_(patience),
      texts_(texts),
      left_(texts) {}

json OpenAiAnswer::Head(bool chunk) const {
  const char* object = !is_chat_ ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
  return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
}

json OpenAiAnswer::Chances(const Text& text) const {
  if (!chances_) return nullptr;
  json all = json::array(), tokens = json::array(), chances = json::array(), likeliest = json::array(),
       offsets = json::array();
  size_t offset = 0;
  for (size_t i = 0; i < text.tokens.size(); ++i) {
    json others = json::array(), map = json::object();
    for (const TokenChance& other : text.likeliest[i]) {
      others.push_back(ChatChance(other));
      map[other.text] = other.log_probability;
    }
    json one = ChatChance(text.tokens[i]);
    one["top_logprobs"] = others;
    all.push_back(one);
    tokens.push_back(text.tokens[i].text);
    chances.push_back(text.tokens[i].log_probability);
    likeliest.push_back(map);
    offsets.push_back(offset);
    offset += text.tokens[i].text.size();
  }
  if (is_chat_) return {{"content", all}, {"refusal", nullptr}};
  return {
      {"tokens", tokens}, {"token_logprobs", chances}, {"top_logprobs", likeliest}, {"text_offset", offsets}};
}

json OpenAiAnswer::Choice(size_t index, const Text& text) const {
  json choice = {{"index", index}, {"logprobs", Chances(text)}, {"finish_reason", text.reason}};
  if (is_chat_)
    choice["message"] = {{"role", "assistant"}, {"content", text.text}, {"refusal", nullptr}};
  else
    choice["text"] = text.text;
  return choice;
}

json OpenAiAnswer::Delta(size_t index, const TextPiece& piece, const std::string& reason) {
  Text part{piece.text, "", piece.tokens, piece.likeliest};
  json choice = {{"index", index},
                 {"logprobs", piece.tokens.empty() ? json(nullptr) : Chances(part)},
                 {"finish_reason", nullptr}};
  if (!reason.empty()) choice["finish_reason"] = reason;
  if (is_chat_) {
    choice["delta"] = json::object();
    if (!texts_[index].begun) choice["delta"]["role"] = "assistant";
    if (!texts_[index].begun || reason.empty()) choice["delta"]["content"] = piece.text;
    texts_[index].begun = true;
  } else {
    choice["text"] = piece.text;
  }
  json event = Head(true);
  event["choices"] = json::array({choice});
  if (usage_) event["usage"] = nullptr;
  return event;
}

json OpenAiAnswer::Usage() const {
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", tokens_},
          {"total_tokens", prompt_tokens_ + tokens_}};
}

void OpenAiAnswer::Event(const json& event) {
  if (!begun_) {
    HttpResponse head;
    head.type = "text/event-stream";
    head.headers.emplace_back("Cache-Control", "no-cache");
    reply_->Begin(std::move(head));
    begun_ = true;
  }
  reply_->SetDeadline(Clock::now() + patience_);
  reply_->Write("data: " + JsonText(event) + "\n\n");
}

void OpenAiAnswer::Add(size_t index, const TextPiece& piece) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended_) return;
  if (streams_) return Event(Delta(index, piece, ""));
  Text& text = texts_[index];
  text.text += piece.text;
  for (size_t i = 0; i < piece.tokens.size(); ++i) {
    text.tokens.push_back(piece.tokens[i]);
    text.likeliest.push_back(piece.likeliest[i]);
  }
}

void OpenAiAnswer::End(size_t index, const TextEnd& end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (ended_) return;
  if (!end.status.ok())  // the request's, then
    return Refuse(OpenAiError(HttpStatusOf(end.status.code()), end.status.message()));
  texts_[index].reason = end.reason;
  prompt_tokens_ += end.prompt_tokens;
  tokens_ += end.tokens;
  if (streams_) Event(Delta(index, {}, end.reason));
  if (--left_ == 0) Finish();
}

void OpenAiAnswer::Finish() {
  ended_ = true;
  ++counts_->answers[2];
  counts_->took.Add(Clock::now() - start_);
  if (streams_) {
    if (usage_) {
      json last = Head(true);
      last["choices"] = json::array();
      last["usage"] = Usage();
      Event(last);
    }
    reply_->Write("data: [DONE]\n\n");
    return reply_->End();
  }
  json answer = Head(false);
  for (size_t i = 0; i < texts_.size(); ++i) answer["choices"].push_back(Choice(i, texts_[i]));
  answer["usage"] = Usage();
  HttpResponse response;
  response.body = JsonText(answer);
  reply_->Send(std::move(response));
}

// A stream that has begun cannot change its status, so an event reports the error.
void OpenAiAnswer::Refuse(HttpResponse response) {
  ended_ = true;
  ++counts_->answers[static_cast<size_t>(response.status / 100)];
  if (!begun_) return reply_->Send(std::move(response));
  reply_->Write("data: " + response.body + "\n\n");
  reply_->End();
}

void OpenAiAnswer::Fail(HttpResponse response) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!ended_) Refuse(std::move(response));
}

bool OpenAiAnswer::closed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_ || reply_->closed();
}

}  // namespace rondo::serve
