#include "tools/serve/grpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "tools/serve/grpc_messages.h"

namespace rondo::serve {

namespace {

using inference::GRPCInferenceService;
using Reactor = grpc::ServerUnaryReactor;

// The reply to one call: the first answer goes to `finish`, once.
class CallReply : public Reply {
 public:
  CallReply(grpc::CallbackServerContext* context, Clock::time_point deadline,
            std::function<void(const HttpResponse& response)> finish)
      : context_(context), deadline_(deadline), finish_(std::move(finish)) {}

  void Send(HttpResponse response) override {
    std::function<void(const HttpResponse&)> finish;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::swap(finish, finish_);
      context_ = nullptr;  // the context ends with the call
    }
    if (finish) finish(response);
  }
  // Calls are never answered in pieces.
  void Begin(HttpResponse) override {}
  void Write(std::string) override {}
  void End() override {}
  void SetDeadline(Clock::time_point deadline) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    deadline_ = deadline;
  }
  Clock::time_point deadline() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return deadline_;
  }
  bool closed() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return context_ == nullptr || context_->IsCancelled() || Clock::now() >= deadline_;
  }

 private:
  mutable std::mutex mutex_;
  grpc::CallbackServerContext* context_;
  Clock::time_point deadline_;
  std::function<void(const HttpResponse&)> finish_;
};

class Service : public GRPCInferenceService::CallbackService {
 public:
  Service(const GrpcLimits& limits, ByteBudget* budget, HttpHandler handler)
      : limits_(limits), budget_(budget), handler_(std::move(handler)) {}

  Reactor* ServerLive(grpc::CallbackServerContext* context, const inference::ServerLiveRequest*,
                      inference::ServerLiveResponse* answer) override {
    answer->set_live(true);
    Reactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  Reactor* ServerReady(grpc::CallbackServerContext* context, const inference::ServerReadyRequest*,
                       inference::ServerReadyResponse* answer) override {
    return Get(context, "/v2/health/ready", [answer](const HttpResponse& response) {
      answer->set_ready(response.status == 200);
      return grpc::Status::OK;
    });
  }
  Reactor* ModelReady(grpc::CallbackServerContext* context, const inference::ModelReadyRequest* request,
                      inference::ModelReadyResponse* answer) override {
    return Get(context, ModelPath(request->name(), request->version(), "/ready"),
               [answer](const HttpResponse& response) {
                 answer->set_ready(response.status == 200);
                 return grpc::Status::OK;
               });
  }
  Reactor* ServerMetadata(grpc::CallbackServerContext* context, const inference::ServerMetadataRequest*,
                          inference::ServerMetadataResponse* answer) override {
    return Get(context, "/v2", [answer](const HttpResponse& response) {
      if (response.status == 200) ReadServerMetadata(response, answer);
      return StatusOf(response);
    });
  }
  Reactor* ModelMetadata(grpc::CallbackServerContext* context, const inference::ModelMetadataRequest* request,
                         inference::ModelMetadataResponse* answer) override {
    return Get(context, ModelPath(request->name(), request->version()),
               [answer](const HttpResponse& response) {
                 if (response.status == 200) ReadModelMetadata(response, answer);
                 return StatusOf(response);
               });
  }
  Reactor* ModelInfer(grpc::CallbackServerContext* context, const inference::ModelInferRequest* message,
                      inference::ModelInferResponse* answer) override {
    HttpRequest request;
    request.method = "POST";
    request.path = ModelPath(message->model_name(), message->model_version(), "/infer");
    request.charge = ByteCharge(budget_);
    // Charges the message, and the body made from it.
    if (!request.charge.Take(2 * message->ByteSizeLong()))
      return Refuse(context, {grpc::StatusCode::UNAVAILABLE,
                              "the requests under way hold as many bytes as they may; try again"});
    if (const Status status = WriteInferRequest(*message, &request); !status.ok())
      return Refuse(context, StatusOf(status));
    return Ask(context, std::move(request), [answer](const HttpResponse& response) {
      return response.status == 200 ? StatusOf(ReadInferResponse(response, answer)) : StatusOf(response);
    });
  }

 private:
  using Read = std::function<grpc::Status(const HttpResponse& response)>;

  // The HTTP path of a model; "" if the name or version would lead to another path.
  static std::string ModelPath(const std::string& name, const std::string& version, const char* what = "") {
    if ((name + version).find('/') != std::string::npos) return "";
    return "/v2/models/" + name + (version.empty() ? "" : "/versions/" + version) + what;
  }

  static Reactor* Refuse(grpc::CallbackServerContext* context, const grpc::Status& status) {
    Reactor* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  Reactor* Get(grpc::CallbackServerContext* context, const std::string& path, const Read& read) {
    HttpRequest request;
    request.method = "GET";
    request.path = path;
    return Ask(context, std::move(request), read);
  }

  Reactor* Ask(grpc::CallbackServerContext* context, HttpRequest request, const Read& read) {
    if (request.path.empty())
      return Refuse(context, {grpc::StatusCode::NOT_FOUND, "no model's name has a \"/\""});
    Reactor* reactor = context->DefaultReactor();
    const auto left = context->deadline() - std::chrono::system_clock::now();  // the client's deadline
    const auto deadline = Clock::now() + std::min<std::chrono::nanoseconds>(limits_.answer, left);
    handler_(std::move(request),
             std::make_shared<CallReply>(context, deadline, [reactor, read](const HttpResponse& response) {
               reactor->Finish(read(response));
             }));
    return reactor;
  }

  const GrpcLimits limits_;
  ByteBudget* const budget_;
  const HttpHandler handler_;
};

class Listening : public GrpcServer {
 public:
  Listening(const GrpcLimits& limits, ByteBudget* budget, HttpHandler handler)
      : service_(limits, budget, std::move(handler)) {}
  ~Listening() override { Shutdown(std::chrono::milliseconds(0)); }

  Status Listen(const std::string& address, uint16_t port, const GrpcLimits& limits) {
    grpc::ServerBuilder builder;
    grpc::ResourceQuota quota("requests");
    quota.Resize(limits.held_bytes);
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<uint64_t>(limits.message_bytes, INT32_MAX)));
    builder.SetMaxSendMessageSize(-1);
    // Without this, two servers could share the calls of one port.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    const bool v6 = address.find(':') != std::string::npos;
    builder.AddListeningPort((v6 ? "[" + address + "]" : address) + ":" + std::to_string(port),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ != nullptr && port_ != 0) return Status::Ok();
    return Status::Error(Code::kIo, "gRPC cannot listen on %s, port %u: it is in use, or not this machine's",
                         address.c_str(), port);
  }

  uint16_t port() const override { return static_cast<uint16_t>(port_); }
  void Shutdown(std::chrono::milliseconds grace) override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + grace);
  }

 private:
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;  // last, because it calls the service
};

}  // namespace

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const std::string& address, uint16_t port,
                                                      const GrpcLimits& limits, ByteBudget* budget,
                                                      HttpHandler handler) {
  auto server = std::make_unique<Listening>(limits, budget, std::move(handler));
  RONDO_RETURN_IF_ERROR(server->Listen(address, port, limits));
  return std::unique_ptr<GrpcServer>(std::move(server));
}

}  // namespace rondo::serve
