#include "tools/serve/openai_api.h"

#include <nlohmann/json.hpp>
#include <random>

#include "tools/serve/error_body.h"
#include "tools/serve/json_text.h"
#include "tools/serve/language_model.h"
#include "tools/serve/openai_answer.h"

namespace rondo::serve {

using nlohmann::json;

namespace {

constexpr int kMostSwitches = 8;  // of versions, while one request is read
constexpr int64_t kUsualTokens =
    16;  // of a completion that does not say, as OpenAI has it; a chat takes what there is

json Described(const LoadedModel& model) {
  return {{"id", model.name}, {"object", "model"}, {"created", model.loaded}, {"owned_by", "rondo"}};
}

uint64_t RandomSeed() {
  static std::atomic<uint64_t> next{(uint64_t{std::random_device()()} << 32) | std::random_device()()};
  return next.fetch_add(0x9E3779B97F4A7C15u);
}

// Turns one request's prompts into jobs, on the thread that may wait for the tokenizer.
class Prompts {
 public:
  Prompts(TextRequest request, ByteCharge charge, std::shared_ptr<Reply> reply,
          std::chrono::milliseconds patience)
      : request_(std::move(request)),
        charge_(std::move(charge)),
        reply_(std::move(reply)),
        patience_(patience) {}

  void Start(const std::shared_ptr<LoadedModel>& model) {
    model_ = model.get();
    std::vector<Tokens> prompts;
    if (const Status status = Read(&prompts); !status.ok()) return Refuse(status);
    const size_t texts = prompts.size() * static_cast<size_t>(request_.count);
    auto answer = std::make_shared<OpenAiAnswer>(reply_, request_, texts, model_->counts, patience_);
    const uint64_t seed = request_.has_seed ? request_.sampling.seed : RandomSeed();
    for (size_t i = 0; i < texts; ++i) {
      auto job = std::make_unique<TextJob>();
      job->prompt = prompts[i / static_cast<size_t>(request_.count)];
      job->sampling = request_.sampling;
      job->sampling.seed = seed + i;
      job->most_tokens = Most(job->prompt);
      job->chances = request_.chances;
      job->ignores_ends = request_.ignores_ends;
      job->stops = request_.stops;
      job->grammar = request_.grammar;
      if (i == 0) job->charge = std::move(charge_);
      job->arrived = Clock::now();
      // A stream's reply ends by itself if nothing comes for too long.
      job->deadline = request_.streams ? Clock::time_point::max() : reply_->deadline();
      job->unwanted = [answer] { return answer->closed(); };
      job->piece = [answer, i](const TextPiece& piece) { answer->Add(i, piece); };
      job->end = [answer, i](const TextEnd& end) { answer->End(i, end); };
      if (model_->language->Add(&job) == JobQueue::Added::kYes) continue;
      ++model_->counts->refused;
      answer->Fail(OpenAiError(
          429, "the model \"" + model_->name + "\" has as many texts waiting as it may; try again"));
      return;
    }
  }

 private:
  Status Read(std::vector<Tokens>* prompts) {
    ModelTexts& texts = model_->language->texts();
    if (request_.is_chat) {
      if (!texts.has_chat())
        return Status::Error(
            Code::kInvalidArgument,
            "the model \"%s\" has no chat template: put the model's tokenizer_config.json, or its "
            "chat_template.jinja, into its folder",
            model_->name.c_str());
      RONDO_ASSIGN_OR_RETURN(const std::string text, texts.Chat(request_.messages));
      RONDO_ASSIGN_OR_RETURN(Tokens tokens, texts.Encode(text, false));  // the template added special tokens
      prompts->push_back(std::move(tokens));
    }
    for (const std::string& prompt : request_.prompts) {
      RONDO_ASSIGN_OR_RETURN(Tokens tokens, texts.Encode(prompt, true));
      prompts->push_back(std::move(tokens));
    }
    for (Tokens& tokens : request_.prompt_tokens) prompts->push_back(std::move(tokens));
    for (const Tokens& tokens : *prompts) RONDO_RETURN_IF_ERROR(Check(tokens));
    return request_.grammar == nullptr ? Status::Ok() : texts.grammars().Check(*request_.grammar);
  }

  Status Check(const Tokens& tokens) const {
    const LanguageModel& model = *model_->language;
    if (tokens.empty())
      return Status::Error(Code::kInvalidArgument, "a prompt has no token; at least one is needed");
    for (int64_t token : tokens) {
      if (token < 0 || token >= model.words())
        return Status::Error(Code::kInvalidArgument, "a prompt has the token %lld; the model knows %lld",
                             static_cast<long long>(token), static_cast<long long>(model.words()));
    }
    const int64_t most = std::max<int64_t>(request_.most_tokens, 1), length = std::ssize(tokens);
    // The last drawn token is not read, and takes no position.
    if (length + most - 1 <= model.context()) return Status::Ok();
    return Status::Error(
        Code::kInvalidArgument,
        "the prompt's %lld tokens and %lld that are to follow exceed the model's context of %lld",
        static_cast<long long>(length), static_cast<long long>(most),
        static_cast<long long>(model.context()));
  }

  int64_t Most(const Tokens& prompt) const {
    const int64_t room = model_->language->context() - std::ssize(prompt) + 1;
    return request_.most_tokens > 0 ? request_.most_tokens
           : request_.is_chat       ? room
                                    : std::min(room, kUsualTokens);
  }

  void Refuse(const Status& status) {
    HttpResponse response = OpenAiError(HttpStatusOf(status.code()), status.message());
    ++model_->counts->answers[static_cast<size_t>(response.status / 100)];
    reply_->Send(std::move(response));
  }

  LoadedModel* model_ = nullptr;
  TextRequest request_;
  ByteCharge charge_;
  std::shared_ptr<Reply> reply_;
  std::chrono::milliseconds patience_;
};

}  // namespace

HttpResponse OpenAiApi::Models() const {
  json all = json::array();
  for (const auto& model : catalog_.Loaded()) {
    if (model->language != nullptr) all.push_back(Described(*model));
  }
  HttpResponse response;
  response.body = JsonText({{"object", "list"}, {"data", all}});
  return response;
}

HttpResponse OpenAiApi::Model(const std::string& name) const {
  std::string why;
  const auto model = catalog_.Find(name, "", &why);
  if (model == nullptr) return OpenAiError(404, why);
  if (model->language == nullptr)
    return OpenAiError(404, "the model \"" + name + "\" is no language model; see /v2");
  HttpResponse response;
  response.body = JsonText(Described(*model));
  return response;
}

void OpenAiApi::Handle(const std::vector<std::string>& path, HttpRequest request,
                       const std::shared_ptr<Reply>& reply) {
  const bool gets = request.method == "GET" || request.method == "HEAD";
  const auto refuse = [&](const char* method) {
    HttpResponse response = OpenAiError(405, request.path + " takes " + method);
    response.headers.emplace_back("Allow", method);
    reply->Send(std::move(response));
  };
  const bool is_chat = path.size() == 3 && path[1] == "chat" && path[2] == "completions";
  if (is_chat || (path.size() == 2 && path[1] == "completions")) {
    if (request.method != "POST") return refuse("POST");
    return Complete(std::move(request), is_chat, reply);
  }
  if ((path.size() == 2 || path.size() == 3) && path[1] == "models") {
    if (!gets) return refuse("GET");
    return reply->Send(path.size() == 2 ? Models() : Model(path[2]));
  }
  reply->Send(OpenAiError(404, "there is nothing at " + request.path.substr(0, 256)));
}

void OpenAiApi::Complete(HttpRequest request, bool is_chat, const std::shared_ptr<Reply>& reply) {
  if (!request.charge.Take(request.body.size() * kJsonBytesPerByte))
    return reply->Send(OpenAiError(503, "the requests under way hold as many bytes as they may; try again"));
  const Result<json> body = ParseJson(request.body);
  if (!body.ok()) return reply->Send(OpenAiError(400, body.status().message()));
  Result<TextRequest> read = ReadTextRequest(*body, request.body, is_chat);
  if (!read.ok()) return reply->Send(OpenAiError(400, read.status().message()));
  const std::string name = read->model;
  const std::string busy = "the model \"" + name + "\" has as many texts waiting as it may; try again";
  const auto prompts = std::make_shared<Prompts>(read.Take(), std::move(request.charge), reply, patience_);
  // If the version ends meanwhile, it accepts no request; the next version does.
  for (int tries = 0; tries < kMostSwitches; ++tries) {
    std::string why;
    const auto model = catalog_.Find(name, "", &why);
    if (model == nullptr) return reply->Send(OpenAiError(ending_ ? 503 : 404, why));
    if (model->language == nullptr)
      return reply->Send(OpenAiError(400, "the model \"" + name + "\" is no language model; see /v2"));
    switch (model->language->Post([prompts, model] { prompts->Start(model); })) {
      case JobQueue::Added::kYes: return;
      case JobQueue::Added::kFull:
        ++model->counts->refused;
        ++model->counts->answers[4];
        return reply->Send(OpenAiError(429, busy));
      case JobQueue::Added::kClosed: break;
    }
  }
  reply->Send(OpenAiError(503, "the model \"" + name + "\" is being replaced; try again"));
}

}  // namespace rondo::serve
