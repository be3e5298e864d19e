#include "tools/serve/batch_runner.h"

#include <algorithm>
#include <cstring>

namespace rondo::serve {

Status BatchRunner::Open() {
  session_ = Session();
  RONDO_ASSIGN_OR_RETURN(session_, Session::Create(runtime_, plan_, options_));
  return Status::Ok();
}

Status BatchRunner::Run(const std::vector<std::unique_ptr<InferJob>>& batch) {
  int64_t rows = 0;
  for (const auto& job : batch) rows += job->rows;
  const BatchForm& form = *batch.front()->form;
  if (form.has_state) RONDO_RETURN_IF_ERROR(session_.ResetState());
  Status status = RunOnce(batch, form.Choose(rows));
  if (status.code() == Code::kDeadlineExceeded) status = status.At("the deadline passed in the run");
  // What sticks to the session must not be the next request's error.
  if (!session_.status().ok() && !session_.ResetState().ok()) RONDO_RETURN_IF_ERROR(Open());
  return status;
}

Status BatchRunner::RunOnce(const std::vector<std::unique_ptr<InferJob>>& batch,
                            const SizedProgram& program) {
  const BatchForm& form = *batch.front()->form;
  const auto all = static_cast<uint64_t>(program.rows);
  // One that fills the program is read and written where it is.
  const bool direct = batch.size() == 1 && batch[0]->rows == program.rows;
  for (const auto& job : batch) {
    job->outputs.resize(form.outputs.size());
    for (size_t i = 0; i < form.outputs.size(); ++i)
      job->outputs[i].resize(form.outputs[i].row_bytes * static_cast<uint64_t>(job->rows));
  }
  inputs_.resize(std::max(inputs_.size(), form.inputs.size()));
  outputs_.resize(std::max(outputs_.size(), form.outputs.size()));
  std::vector<Input> inputs;
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    const PortForm& port = form.inputs[i];
    Input input;
    input.index = port.index;
    input.dtype = port.dtype;
    input.shape = port.shape;
    if (form.joins) input.shape[0] = program.rows;
    input.bytes = port.row_bytes * all;
    input.data = batch[0]->inputs[i];
    if (!direct) {
      std::vector<uint8_t>& bytes = inputs_[i];
      bytes.resize(input.bytes);
      uint64_t at = 0;
      for (const auto& job : batch) {
        const uint64_t size = port.row_bytes * static_cast<uint64_t>(job->rows);
        if (size > 0) std::memcpy(bytes.data() + at, job->inputs[i], size);
        at += size;
      }
      for (; at < input.bytes; at += port.row_bytes)
        std::memcpy(bytes.data() + at, bytes.data(), port.row_bytes);
      input.data = bytes.data();
    }
    inputs.push_back(input);
  }
  std::vector<Output> outputs;
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    Output output;
    output.index = form.outputs[i].index;
    output.dtype = form.outputs[i].dtype;
    output.bytes = form.outputs[i].row_bytes * all;
    if (!direct) outputs_[i].resize(output.bytes);
    output.data = direct ? batch[0]->outputs[i].data() : outputs_[i].data();
    outputs.push_back(output);
  }
  Clock::time_point last = batch[0]->deadline;
  for (const auto& job : batch) last = std::max(last, job->deadline);
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(last - Clock::now()).count();
  RunOptions options;
  options.timeout_ns = static_cast<uint64_t>(std::max<int64_t>(left, 1));
  RONDO_RETURN_IF_ERROR(session_.Run(program.program, {inputs.data(), inputs.size()},
                                     {outputs.data(), outputs.size()}, options));
  if (direct) return Status::Ok();
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    uint64_t at = 0;
    for (const auto& job : batch) {
      std::vector<uint8_t>& to = job->outputs[i];
      if (!to.empty()) std::memcpy(to.data(), outputs_[i].data() + at, to.size());
      at += to.size();
    }
  }
  return Status::Ok();
}

}  // namespace rondo::serve
