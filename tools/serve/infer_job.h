// InferJob: one request for a run: input tensors, output tensors, and a callback.
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
  BucketFamily::Choice choice;  // of the form's family, for this request alone
  // By port of the form: dense tensors. Inputs point into `request` or `parsed`.
  std::vector<Input> inputs;
  std::vector<std::vector<uint8_t>> outputs;
  HttpRequest request;                       // its body holds binary inputs
  std::vector<std::vector<uint8_t>> parsed;  // inputs given as JSON
  Clock::time_point arrived, deadline;
  std::function<bool()> unwanted;  // whether nobody waits any more
  // Called once, on any thread, with the result.
  std::function<void(InferJob* job, const Status& status)> done;

  int64_t rows() const { return choice.lengths[form->rows]; }  // if the form joins requests
  Shape OutputShape(size_t i) const { return form->output(i).ShapeOf(choice); }
  uint64_t OutputBytes(size_t i) const {
    return static_cast<uint64_t>(OutputShape(i).elements() * ByteSize(form->output(i).plan.dtype));
  }
};

}  // namespace rondo::serve
