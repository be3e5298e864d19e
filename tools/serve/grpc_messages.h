// Conversions between messages of the Open Inference Protocol and equivalent HTTP requests and answers.
#pragma once

#include <string>

#include "core/status.h"
#include "open_inference.grpc.pb.h"
#include "tools/serve/http_message.h"

namespace rondo::serve {

// Writes the body and headers of an inference request: JSON, then the tensors' bytes. kInvalidArgument for
// contents that do not have their tensor's type.
Status WriteInferRequest(const inference::ModelInferRequest& message, HttpRequest* request);
// Reads an answer with binary outputs.
Status ReadInferResponse(const HttpResponse& response, inference::ModelInferResponse* message);
void ReadServerMetadata(const HttpResponse& response, inference::ServerMetadataResponse* message);
void ReadModelMetadata(const HttpResponse& response, inference::ModelMetadataResponse* message);

// The gRPC status for an HTTP answer, with its message.
grpc::Status StatusOf(const HttpResponse& response);
grpc::Status StatusOf(const Status& status);

}  // namespace rondo::serve
