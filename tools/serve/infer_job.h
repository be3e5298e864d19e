// InferJob: one request for a run: tensors in, tensors out, and who is told.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "tools/serve/batch_form.h"
#include "tools/serve/http_message.h"

namespace rondo::serve {

struct InferJob {
  const BatchForm* form = nullptr;
  int64_t rows = 1;
  // By port of the form: dense tensors of row_bytes * rows. Inputs point into `request` or `parsed`.
  std::vector<const uint8_t*> inputs;
  std::vector<std::vector<uint8_t>> outputs;
  HttpRequest request;                       // whose body holds binary inputs
  std::vector<std::vector<uint8_t>> parsed;  // inputs that came as JSON
  Clock::time_point arrived, deadline;
  std::function<bool()> unwanted;  // nobody waits any more
  // Called once, on any thread, with what came of it.
  std::function<void(InferJob* job, const Status& status)> done;
};

}  // namespace rondo::serve
