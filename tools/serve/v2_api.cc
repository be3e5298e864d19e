#include "tools/serve/v2_api.h"

#include <nlohmann/json.hpp>

#include "runtime/rondo.h"
#include "tools/serve/error_body.h"
#include "tools/serve/json_text.h"
#include "tools/serve/v2_infer.h"
#include "tools/serve/v2_types.h"

namespace rondo::serve {

using nlohmann::json;

namespace {

constexpr int kMostSwitches = 8;  // of versions, while one request is read

HttpResponse JsonResponse(const json& value) {
  HttpResponse response;
  response.body = JsonText(value);
  return response;
}

json PortsOf(const BatchForm& form, bool outputs) {
  json all = json::array();
  for (size_t i = 0; i < (outputs ? form.outputs : form.inputs).size(); ++i) {
    const BucketFamily::PaddedPort& port = outputs ? form.output(i) : form.input(i);
    all.push_back({{"name", port.plan.name}, {"datatype", V2Name(port.plan.dtype)}, {"shape", DimsOf(port)}});
  }
  return all;
}

// The largest value of each length that a request may have.
json MostOf(const BatchForm& form) {
  json most = json::object();
  for (size_t l = 0; l < form.family.lengths().size(); ++l)
    most[form.family.lengths()[l]] = form.family.buckets().back().rooms[l];
  return most;
}

}  // namespace

HttpResponse V2Api::Ready() const {
  if (ending_) return BusyResponse(503, "the server is ending");
  if (const Status status = backend_.runtime().Ready(); !status.ok())
    return BusyResponse(503, status.message());
  for (const ModelState& state : catalog_.States()) {
    if (state.state == "READY") return JsonResponse({{"ready", true}});
  }
  return BusyResponse(503, "no model is loaded");
}

HttpResponse V2Api::Server() const {
  return JsonResponse({{"name", "rondo"},
                       {"version", rondo_version_string()},
                       {"extensions", {"binary_tensor_data", "model_repository"}}});
}

HttpResponse V2Api::Index() const {
  json all = json::array();
  for (const ModelState& state : catalog_.States()) {
    json one = {{"name", state.name}, {"state", state.state}, {"reason", state.reason}};
    if (!state.version.empty()) one["version"] = state.version;
    all.push_back(one);
  }
  return JsonResponse(all);
}

HttpResponse V2Api::Metadata(const LoadedModel& model) const {
  json described = {{"name", model.name},
                    {"versions", {std::to_string(model.version)}},
                    {"platform", "rondo_" + backend_.Name()}};
  const std::vector<BatchForm>& forms = model.forms;
  described["inputs"] = PortsOf(forms[0], false);
  described["outputs"] = PortsOf(forms[0], true);
  // Members for which the protocol has no place.
  for (const BatchForm& form : forms) {
    described["rondo"]["programs"].push_back({{"names", form.programs},
                                              {"inputs", PortsOf(form, false)},
                                              {"outputs", PortsOf(form, true)},
                                              {"most", MostOf(form)},
                                              {"most_rows", form.joins() ? form.most_rows() : 0}});
  }
  described["rondo"]["bytes"] = model.bytes;
  return JsonResponse(described);
}

void V2Api::Handle(const std::vector<std::string>& path, HttpRequest request,
                   const std::shared_ptr<Reply>& reply) {
  const bool posts = request.method == "POST", gets = request.method == "GET" || request.method == "HEAD";
  const auto is = [&](size_t at, const char* word) { return at < path.size() && path[at] == word; };
  const auto refuse = [&](const char* method) {
    HttpResponse response = ErrorResponse(405, request.path + " takes " + method);
    response.headers.emplace_back("Allow", method);
    reply->Send(std::move(response));
  };
  if (path.size() == 3 && is(1, "repository") && is(2, "index"))
    return posts ? reply->Send(Index()) : refuse("POST");
  size_t at = 3;  // after the model's name
  std::string version;
  if (is(1, "models") && is(3, "versions") && path.size() > 4) version = path[4], at = 5;
  if (is(1, "models") && path.size() == at + 1 && is(at, "infer")) {
    if (!posts) return refuse("POST");
    return Infer(path[2], version, std::move(request), reply);
  }
  const bool model_ready = is(1, "models") && path.size() == at + 1 && is(at, "ready");
  const bool metadata = is(1, "models") && path.size() == at;
  const bool server =
      path.size() == 1 || (path.size() == 3 && is(1, "health") && (is(2, "live") || is(2, "ready")));
  if (!model_ready && !metadata && !server)
    return reply->Send(ErrorResponse(404, "there is nothing at " + request.path.substr(0, 256)));
  if (!gets) return refuse("GET");
  if (path.size() == 1) return reply->Send(Server());
  if (server) return reply->Send(is(2, "live") ? JsonResponse({{"live", true}}) : Ready());
  std::string why;
  const std::shared_ptr<LoadedModel> model = catalog_.Find(path[2], version, &why);
  if (model == nullptr) return reply->Send(ErrorResponse(404, why));
  if (!model_ready) return reply->Send(Metadata(*model));
  reply->Send(JsonResponse({{"name", model->name}, {"ready", true}}));
}

void V2Api::Infer(const std::string& name, const std::string& version, HttpRequest request,
                  const std::shared_ptr<Reply>& reply) {
  auto job = std::make_unique<InferJob>();
  job->arrived = Clock::now();
  job->request = std::move(request);
  if (!job->request.Header("content-encoding").empty())
    return reply->Send(ErrorResponse(415, "the body's Content-Encoding is not supported: send it as it is"));
  // If the version ends meanwhile, it accepts no request; the next version does.
  for (int tries = 0; tries < kMostSwitches; ++tries) {
    std::string why;
    const std::shared_ptr<LoadedModel> model = catalog_.Find(name, version, &why);
    if (model == nullptr) return reply->Send(ending_ ? BusyResponse(503, why) : ErrorResponse(404, why));
    if (model->plan == nullptr)
      return reply->Send(
          ErrorResponse(400, "the model \"" + name + "\" continues texts: see /v1/completions"));
    ModelCounts* counts = model->counts;
    const auto answer_with = [counts, reply](HttpResponse response) {
      ++counts->answers[static_cast<size_t>(response.status / 100)];
      reply->Send(std::move(response));
    };
    job->form = nullptr;
    job->parsed.clear();
    job->deadline = reply->deadline();
    InferAnswer answer{model->name, std::to_string(model->version), "", {}};
    if (const Status status = ParseInfer(model->plan->forms(), job.get(), &answer); !status.ok())
      return answer_with(ErrorResponse(status));
    reply->SetDeadline(job->deadline);
    job->unwanted = [reply] { return reply->closed(); };
    job->done = [counts, answer_with, answer = std::move(answer)](InferJob* done, const Status& status) {
      answer_with(status.ok() ? InferResponse(*done, answer) : ErrorResponse(status));
      counts->took.Add(Clock::now() - done->arrived);
    };
    switch (model->plan->Add(&job)) {
      case JobQueue::Added::kYes: return;
      case JobQueue::Added::kFull:
        ++counts->refused;
        return answer_with(BusyResponse(429, "the model \"" + name +
                                                 "\" has as many requests waiting as it may; "
                                                 "try again"));
      case JobQueue::Added::kClosed: break;
    }
  }
  reply->Send(BusyResponse(503, "the model \"" + name + "\" is being replaced; try again"));
}

}  // namespace rondo::serve
