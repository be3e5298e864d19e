// Server: serves a folder of plans over HTTP, and over gRPC if asked for, from its start to its orderly end.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "tools/serve/backend.h"
#include "tools/serve/catalog.h"
#include "tools/serve/grpc_server.h"
#include "tools/serve/http_server.h"
#include "tools/serve/openai_api.h"
#include "tools/serve/v2_api.h"

namespace rondo::serve {

struct ServerOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 8000;
  std::optional<uint16_t> grpc_port;  // absent: no gRPC
  uint32_t http_threads = 2;
  HttpLimits http;
  uint64_t held_bytes = uint64_t{1} << 30;  // for all open requests together
  CatalogOptions catalog;
  tools::LoadOptions load;
};

class Server {
 public:
  // Loads the plans in the folder and listens. kIo, kInvalidArgument, or an error from opening the driver.
  static Result<std::unique_ptr<Server>> Start(const ServerOptions& options);
  ~Server() { End(std::chrono::milliseconds(0)); }

  uint16_t port() const { return http_->port(); }
  uint16_t grpc_port() const { return grpc_ == nullptr ? 0 : grpc_->port(); }
  std::vector<ModelState> States() const { return catalog_->States(); }
  // Reports that it is not ready, accepts no more connections, answers open requests for `grace` at most, and
  // ends. True if every request was answered.
  bool End(std::chrono::milliseconds grace);

 private:
  explicit Server(const ServerOptions& options) : options_(options), budget_(options.held_bytes) {}
  void Handle(HttpRequest request, const std::shared_ptr<Reply>& reply);

  const ServerOptions options_;
  ByteBudget budget_;
  std::atomic<bool> ending_{false};
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<V2Api> v2_;
  std::unique_ptr<OpenAiApi> openai_;
  std::unique_ptr<HttpServer> http_;  // the last two call the others
  std::unique_ptr<GrpcServer> grpc_;
};

}  // namespace rondo::serve
