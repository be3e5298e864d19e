// Messages of the Open Inference Protocol as the HTTP requests and answers that say the same.
#pragma once

#include <string>

#include "core/status.h"
#include "open_inference.grpc.pb.h"
#include "tools/serve/http_message.h"

namespace rondo::serve {

// The body and headers of an inference request: JSON, then the tensors' bytes. kInvalidArgument for contents
// that are not of their tensor's type.
Status WriteInferRequest(const inference::ModelInferRequest& message, HttpRequest* request);
// An answer whose outputs are binary.
Status ReadInferResponse(const HttpResponse& response, inference::ModelInferResponse* message);
void ReadServerMetadata(const HttpResponse& response, inference::ServerMetadataResponse* message);
void ReadModelMetadata(const HttpResponse& response, inference::ModelMetadataResponse* message);

// The status that an HTTP answer is, with its sentence.
grpc::Status StatusOf(const HttpResponse& response);
grpc::Status StatusOf(const Status& status);

}  // namespace rondo::serve
