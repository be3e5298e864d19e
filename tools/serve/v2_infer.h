// Requests and responses of the Open Inference Protocol (KServe v2, with Triton's extension for binary
// tensors).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/serve/infer_job.h"

namespace rondo::serve {

// The form of answer that a request asks for.
struct InferAnswer {
  struct Wanted {
    size_t output = 0;  // index in the form's outputs
    bool binary = false;
  };
  std::string model, version, id;
  std::vector<Wanted> outputs;
};

// The shape of a port as clients see it, with -1 for dimensions that a request determines.
nlohmann::json DimsOf(const BucketFamily::PaddedPort& port);

// Reads the body of `job->request` into the job's tensors. Sets its form, its choice and, if the request has
// a timeout, an earlier deadline. Errors are messages for the client: kInvalidArgument, kNotFound (a port or
// program), kOutOfMemory (the server's bytes).
Status ParseInfer(const std::vector<BatchForm>& forms, InferJob* job, InferAnswer* answer);

// The answer to a job that has run.
HttpResponse InferResponse(const InferJob& job, const InferAnswer& answer);

}  // namespace rondo::serve
