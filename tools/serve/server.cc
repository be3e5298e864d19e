#include "tools/serve/server.h"

#include <sys/resource.h>

#include "tools/rondo/trusted_plan.h"
#include "tools/serve/error_body.h"
#include "tools/serve/metrics_page.h"
#include "tools/serve/model_folder.h"

namespace rondo::serve {

namespace {

std::vector<std::string> PartsOf(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// Raises the limit on descriptors to the highest allowed, because each connection takes one.
void RaiseDescriptors() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// Of the plans in the folder, the one for the most devices: it determines the driver to open.
Result<Plan> PlanOfMostDevices(const std::string& folder, const std::vector<std::string>& keys) {
  RONDO_ASSIGN_OR_RETURN(const auto found, ReadModelFolder(folder));
  Plan most;
  for (const auto& [name, model] : found) {
    for (const auto& [number, version] : model.versions) {
      const Result<Plan> plan = tools::OpenTrusted(version.plan, keys, {});
      if (!plan.ok()) continue;
      const auto devices = [](const Plan& p) { return p.data().requirements.devices.size(); };
      if (!most.valid() || devices(*plan) > devices(most)) most = *plan;
    }
  }
  return most;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  RaiseDescriptors();
  std::unique_ptr<Server> server(new Server(options));
  Server* raw = server.get();
  PlanData none;
  const DeviceBytes device;
  none.requirements.devices = {&device, 1};
  none.requirements.target = "host";
  RONDO_ASSIGN_OR_RETURN(const Plan like, PlanOfMostDevices(options.catalog.folder, options.load.keys));
  RONDO_ASSIGN_OR_RETURN(raw->backend_, Backend::Open(like.valid() ? like.data() : none, options.load));
  raw->catalog_ = std::make_unique<Catalog>(*raw->backend_, options.catalog);
  RONDO_RETURN_IF_ERROR(raw->catalog_->Refresh());
  raw->v2_ = std::make_unique<V2Api>(*raw->backend_, *raw->catalog_, raw->ending_);
  raw->openai_ = std::make_unique<OpenAiApi>(*raw->catalog_, raw->ending_, options.http.answer);
  if (options.grpc_port) {
    const GrpcLimits limits{options.http.body_bytes, options.held_bytes, options.http.answer};
    RONDO_ASSIGN_OR_RETURN(raw->grpc_,
                           GrpcServer::Start(options.address, *options.grpc_port, limits, &raw->budget_,
                                             [raw](HttpRequest request, std::shared_ptr<Reply> reply) {
                                               raw->Handle(std::move(request), reply);
                                             }));
  }
  RONDO_ASSIGN_OR_RETURN(
      raw->http_, HttpServer::Start(options.address, options.port, options.http_threads, options.http,
                                    &raw->budget_, [raw](HttpRequest request, std::shared_ptr<Reply> reply) {
                                      raw->Handle(std::move(request), reply);
                                    }));
  raw->http_->Run();
  raw->catalog_->Start();
  return server;
}

void Server::Handle(HttpRequest request, const std::shared_ptr<Reply>& reply) {
  const std::vector<std::string> path = PartsOf(request.path);
  if (!path.empty() && path[0] == "v2") return v2_->Handle(path, std::move(request), reply);
  if (!path.empty() && path[0] == "v1") return openai_->Handle(path, std::move(request), reply);
  if (path.size() == 1 && path[0] == "metrics") {
    HttpResponse response;
    response.type = "text/plain; version=0.0.4";
    response.body = MetricsPage(*backend_, *catalog_, http_->counts(), budget_);
    return reply->Send(std::move(response));
  }
  reply->Send(
      ErrorResponse(404, "there is nothing at " + request.path.substr(0, 256) + "; see /v1, /v2, /metrics"));
}

bool Server::End(std::chrono::milliseconds grace) {
  ending_ = true;
  bool answered = true;
  if (http_ != nullptr) {
    http_->Drain();
    answered = http_->WaitUntilIdle(grace);
    http_->CloseAll();
  }
  if (grpc_ != nullptr) grpc_->Shutdown(grace);
  if (catalog_ != nullptr) catalog_->Stop();
  if (http_ != nullptr) http_->Stop();
  http_.reset();
  grpc_.reset();
  return answered;
}

}  // namespace rondo::serve
