// Replaces grpc_server.cc in a build without gRPC.
#include "tools/serve/grpc_server.h"

namespace rondo::serve {

Result<std::unique_ptr<GrpcServer>> GrpcServer::Start(const std::string&, uint16_t, const GrpcLimits&,
                                                      ByteBudget*, HttpHandler) {
  return Status::Error(Code::kUnsupported,
                       "this build does not speak gRPC: install libgrpc++-dev and protobuf-compiler-grpc "
                       "(tools/setup --grpc) and configure with -DRONDO_SERVE_GRPC=ON");
}

}  // namespace rondo::serve
