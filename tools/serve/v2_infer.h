// Requests and responses of the Open Inference Protocol (KServe v2, as Triton extends it by binary tensors).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/serve/infer_job.h"

namespace rondo::serve {

// How a request wants its answer.
struct InferAnswer {
  struct Wanted {
    size_t output = 0;  // of the form
    bool binary = false;
  };
  std::string model, version, id;
  std::vector<Wanted> outputs;
};

// The shape of a port as clients see it, -1 where a request says how much it is.
nlohmann::json DimsOf(const BucketFamily::PaddedPort& port);

// Reads the body of `job->request` into the job's tensors; sets its form, its choice and, where the request
// has a timeout, an earlier deadline. Errors are sentences for the client: kInvalidArgument, kNotFound (a
// port or program), kOutOfMemory (the server's bytes).
Status ParseInfer(const std::vector<BatchForm>& forms, InferJob* job, InferAnswer* answer);

// The answer to a job that has run.
HttpResponse InferResponse(const InferJob& job, const InferAnswer& answer);

}  // namespace rondo::serve
