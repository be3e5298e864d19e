// GrpcServer: the Open Inference Protocol over gRPC, in front of the handler that answers it over HTTP.
//
// Each call becomes the equivalent HTTP request with binary tensors, and the answer becomes a message. Both
// protocols share forms, limits, queues and messages. Built with RONDO_SERVE_GRPC.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/status.h"
#include "tools/serve/http_message.h"

namespace rondo::serve {

struct GrpcLimits {
  uint64_t message_bytes = 64 << 20;        // per request
  uint64_t held_bytes = uint64_t{1} << 30;  // for gRPC's own buffers
  std::chrono::milliseconds answer{60'000};
};

class GrpcServer {
 public:
  virtual ~GrpcServer() = default;
  // Listens on `address` and `port` (0: any free one). kIo, naming both, if it cannot; kUnsupported if this
  // build has no gRPC. `budget` must outlive the server.
  static Result<std::unique_ptr<GrpcServer>> Start(const std::string& address, uint16_t port,
                                                   const GrpcLimits& limits, ByteBudget* budget,
                                                   HttpHandler handler);
  virtual uint16_t port() const = 0;
  // Accepts no more calls, waits up to `grace` for open ones, and cancels the rest. Called once.
  virtual void Shutdown(std::chrono::milliseconds grace) = 0;
};

}  // namespace rondo::serve
