#include "tools/serve/batch_runner.h"

#include <algorithm>

namespace rondo::serve {

Status BatchRunner::Open() {
  session_ = Session();
  RONDO_ASSIGN_OR_RETURN(session_, Session::Create(runtime_, plan_, options_));
  return Status::Ok();
}

void BatchRunner::Prepare(const std::vector<BatchForm>& forms) {
  forms_.clear();
  for (const BatchForm& form : forms) forms_[&form] = BucketSession::Create(&session_, form.family);
}

Status BatchRunner::Run(const std::vector<std::unique_ptr<InferJob>>& batch) {
  if (batch.front()->form->has_state) RONDO_RETURN_IF_ERROR(session_.ResetState());
  Status status = RunOnce(batch);
  if (status.code() == Code::kDeadlineExceeded) status = status.At("the deadline passed in the run");
  // An error that stays in the session must not fail the next request.
  if (!session_.status().ok() && !session_.ResetState().ok()) RONDO_RETURN_IF_ERROR(Open());
  return status;
}

Status BatchRunner::RunOnce(const std::vector<std::unique_ptr<InferJob>>& batch) {
  const BatchForm& form = *batch.front()->form;
  std::vector<std::vector<Output>> outputs;
  std::vector<BucketPart> parts;
  Clock::time_point last = batch[0]->deadline;
  for (const auto& job : batch) {
    job->outputs.resize(form.outputs.size());
    std::vector<Output>& own = outputs.emplace_back();
    for (size_t i = 0; i < form.outputs.size(); ++i) {
      job->outputs[i].resize(job->OutputBytes(i));
      Output& output = own.emplace_back();
      output.index = form.outputs[i];
      output.dtype = form.output(i).plan.dtype;
      output.bytes = job->outputs[i].size();
      output.data = job->outputs[i].data();
    }
    parts.push_back({{job->inputs.data(), job->inputs.size()}, {own.data(), own.size()}});
    last = std::max(last, job->deadline);
  }
  const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(last - Clock::now()).count();
  RunOptions options;
  options.timeout_ns = static_cast<uint64_t>(std::max<int64_t>(left, 1));
  BucketSession& buckets = *forms_.at(&form);
  if (!form.joins()) return buckets.Run(parts[0].inputs, parts[0].outputs, options);
  return buckets.RunTogether(form.family.lengths()[form.rows], {parts.data(), parts.size()}, options);
}

}  // namespace rondo::serve
