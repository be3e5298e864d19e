#include "tools/serve/openai_request.h"

#include <charconv>

#include "tools/serve/json_text.h"
#include "tools/serve/request_grammar.h"

namespace rondo::serve {

using nlohmann::json;

namespace {

constexpr int64_t kMostTexts = 128;  // of a request
constexpr size_t kMostStops = 16;

// Members for features that this server does not have. They are refused unless their value turns the feature
// off.
struct NotDone {
  const char* name;
  json nothing;
};

const std::vector<NotDone>& WhatIsNotDone() {
  static const std::vector<NotDone> all = {{"tools", json::array()},
                                           {"tool_choice", "none"},
                                           {"functions", json::array()},
                                           {"guided_json", nullptr},
                                           {"guided_regex", nullptr},
                                           {"guided_choice", nullptr},
                                           {"guided_grammar", nullptr},
                                           {"echo", false},
                                           {"suffix", ""},
                                           {"best_of", 1},
                                           {"audio", nullptr},
                                           {"modalities", {"text"}}};
  return all;
}

class Reader {
 public:
  Reader(const json& body, const std::string& text, bool is_chat) : body_(body), text_(text) {
    request_.is_chat = is_chat;
  }

  Result<TextRequest> Run() {
    const json* model = Member(body_, "model");
    if (model == nullptr || !model->is_string()) return Refuse("\"model\" is missing: the name of one");
    request_.model = model->get<std::string>();
    for (const NotDone& one : WhatIsNotDone()) {
      const json* asked = Member(body_, one.name);
      if (asked != nullptr && *asked != one.nothing)
        return Refuse(std::string("\"") + one.name + "\" is not supported");
    }
    RONDO_RETURN_IF_ERROR(request_.is_chat ? ReadMessages() : ReadPrompts());
    RONDO_RETURN_IF_ERROR(ReadSampling());
    RONDO_RETURN_IF_ERROR(ReadStops());
    RONDO_RETURN_IF_ERROR(ReadChances());
    RONDO_ASSIGN_OR_RETURN(request_.grammar, ReadRequestGrammar(body_, text_));
    RONDO_RETURN_IF_ERROR(Flag(body_, "stream", &request_.streams));
    RONDO_RETURN_IF_ERROR(Flag(body_, "ignore_eos", &request_.ignores_ends));
    if (const json* options = Member(body_, "stream_options"))
      RONDO_RETURN_IF_ERROR(Flag(*options, "include_usage", &request_.usage));
    const int64_t prompts = std::ssize(request_.prompts) + std::ssize(request_.prompt_tokens);
    if (!request_.is_chat && prompts * request_.count > kMostTexts)
      return Refuse("the request asks for " + std::to_string(prompts * request_.count) + " texts; " +
                    std::to_string(kMostTexts) + " is the limit");
    return std::move(request_);
  }

 private:
  static Status Flag(const json& object, const char* name, bool* value) {
    const json* given = Member(object, name);
    if (given == nullptr) return Status::Ok();
    if (!given->is_boolean()) return Refuse(std::string("\"") + name + "\" is neither true nor false");
    *value = given->get<bool>();
    return Status::Ok();
  }

  Status Number(const char* name, double least, double most, double* value) const {
    const json* given = Member(body_, name);
    if (given == nullptr) return Status::Ok();
    if (!given->is_number() || !(*given >= least && *given <= most)) {
      char range[64];
      std::snprintf(range, sizeof(range), "%g to %g", least, most);
      return Refuse(std::string("\"") + name + "\" is " + JsonText(*given).substr(0, 32) +
                    ", no number from " + range);
    }
    *value = given->get<double>();
    return Status::Ok();
  }

  Status Integer(const char* name, int64_t least, int64_t most, int64_t* value) const {
    const json* given = Member(body_, name);
    if (given == nullptr) return Status::Ok();
    if (!given->is_number_integer() || !(*given >= least && *given <= most))
      return Refuse(std::string("\"") + name + "\" is " + JsonText(*given).substr(0, 32) +
                    ", no integer from " + std::to_string(least) + " to " + std::to_string(most));
    *value = given->get<int64_t>();
    return Status::Ok();
  }

  Status ReadMessages() {
    const json* messages = Member(body_, "messages");
    if (messages == nullptr || !messages->is_array() || messages->empty())
      return Refuse("\"messages\" is missing: a list of {\"role\", \"content\"}");
    request_.messages = json::array();
    for (const json& message : *messages) {
      const json *role = Member(message, "role"), *content = Member(message, "content");
      if (role == nullptr || !role->is_string()) return Refuse("a message has no \"role\"");
      std::string text;
      if (content != nullptr && content->is_string()) {
        text = content->get<std::string>();
      } else if (content != nullptr && content->is_array()) {
        for (const json& part : *content) {
          const json *type = Member(part, "type"), *words = Member(part, "text");
          if (type == nullptr || *type != "text" || words == nullptr || !words->is_string())
            return Refuse("a message's content has a part that is no text");
          text += words->get<std::string>();
        }
      } else {
        return Refuse("a message has no \"content\" that is text");
      }
      request_.messages.push_back({{"role", *role}, {"content", text}});
    }
    return Status::Ok();
  }

  // Reads a text, tokens, or a list of either.
  Status ReadPrompts() {
    const json* prompt = Member(body_, "prompt");
    if (prompt == nullptr) return Refuse("\"prompt\" is missing: a text, tokens, or a list of either");
    if (prompt->is_string()) return ReadPrompt(*prompt);
    if (!prompt->is_array() || prompt->empty())
      return Refuse("\"prompt\" is no text, no tokens, and no list of either");
    if ((*prompt)[0].is_number()) return ReadPrompt(*prompt);
    for (const json& one : *prompt) RONDO_RETURN_IF_ERROR(ReadPrompt(one));
    if (!request_.prompts.empty() && !request_.prompt_tokens.empty())
      return Refuse("\"prompt\" has texts and tokens");
    return Status::Ok();
  }

  Status ReadPrompt(const json& prompt) {
    if (prompt.is_string()) {
      request_.prompts.push_back(prompt.get<std::string>());
      return Status::Ok();
    }
    if (!prompt.is_array()) return Refuse("a prompt is neither text nor tokens");
    Tokens tokens;
    for (const json& token : prompt) {
      if (!token.is_number_integer() || !(token >= 0 && token <= INT32_MAX))
        return Refuse("a prompt has the token " + JsonText(token).substr(0, 32));
      tokens.push_back(token.get<int64_t>());
    }
    request_.prompt_tokens.push_back(std::move(tokens));
    return Status::Ok();
  }

  Status ReadSampling() {
    tools::SamplerSettings& s = request_.sampling;
    s.temperature = 1;
    RONDO_RETURN_IF_ERROR(Number("temperature", 0, 100, &s.temperature));
    RONDO_RETURN_IF_ERROR(Number("top_p", 0, 1, &s.top_p));
    RONDO_RETURN_IF_ERROR(Number("min_p", 0, 1, &s.min_p));
    RONDO_RETURN_IF_ERROR(Number("repetition_penalty", 0.01, 100, &s.repetition_penalty));
    RONDO_RETURN_IF_ERROR(Number("presence_penalty", -2, 2, &s.presence_penalty));
    RONDO_RETURN_IF_ERROR(Number("frequency_penalty", -2, 2, &s.frequency_penalty));
    RONDO_RETURN_IF_ERROR(Integer("top_k", -1, 1 << 24, &s.top_k));
    s.top_k = std::max<int64_t>(s.top_k, 0);
    RONDO_RETURN_IF_ERROR(Integer("n", 1, kMostTexts, &request_.count));
    RONDO_RETURN_IF_ERROR(Integer("max_tokens", 1, 1 << 30, &request_.most_tokens));
    RONDO_RETURN_IF_ERROR(Integer("max_completion_tokens", 1, 1 << 30, &request_.most_tokens));
    int64_t seed = 0;
    RONDO_RETURN_IF_ERROR(Integer("seed", INT64_MIN, INT64_MAX, &seed));
    request_.has_seed = Member(body_, "seed") != nullptr;
    s.seed = static_cast<uint64_t>(seed);
    return ReadBias();
  }

  Status ReadBias() {
    const json* bias = Member(body_, "logit_bias");
    if (bias == nullptr) return Status::Ok();
    if (!bias->is_object()) return Refuse("\"logit_bias\" is no object of tokens");
    for (const auto& [name, value] : bias->items()) {
      int64_t token = -1;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), token);
      const bool good = error == std::errc() && end == name.data() + name.size() && token >= 0;
      if (!good || !value.is_number() || !(value >= -100 && value <= 100))
        return Refuse("\"logit_bias\" has " + JsonText(name).substr(0, 32) + ": " +
                      JsonText(value).substr(0, 32) + "; tokens have numbers from -100 to 100");
      request_.sampling.bias[token] = value.get<double>();
    }
    return Status::Ok();
  }

  Status ReadStops() {
    const json* stops = Member(body_, "stop");
    if (stops == nullptr) return Status::Ok();
    const json all = stops->is_array() ? *stops : json::array({*stops});
    if (all.size() > kMostStops)
      return Refuse("\"stop\" has " + std::to_string(all.size()) + " texts; " + std::to_string(kMostStops) +
                    " is the limit");
    for (const json& stop : all) {
      if (!stop.is_string() || stop.get<std::string>().empty())
        return Refuse("\"stop\" has what is no text, or an empty one");
      request_.stops.push_back(stop.get<std::string>());
    }
    return Status::Ok();
  }

  // Completions give the number of likeliest tokens; chats say whether they want any, and give the number
  // separately.
  Status ReadChances() {
    int64_t count = -1;
    if (!request_.is_chat) {
      RONDO_RETURN_IF_ERROR(Integer("logprobs", 0, 20, &count));
    } else {
      bool wanted = false;
      RONDO_RETURN_IF_ERROR(Flag(body_, "logprobs", &wanted));
      if (wanted) count = 0;
      if (wanted) RONDO_RETURN_IF_ERROR(Integer("top_logprobs", 0, 20, &count));
    }
    request_.chances = static_cast<int>(count);
    return Status::Ok();
  }

  const json& body_;
  const std::string& text_;
  TextRequest request_;
};

}  // namespace

Result<TextRequest> ReadTextRequest(const json& body, const std::string& text, bool is_chat) {
  return Reader(body, text, is_chat).Run();
}

}  // namespace rondo::serve
