#include "tools/serve/row_trial.h"

#include <algorithm>

#include "core/scalar.h"

namespace rondo::serve {

namespace {

// Element `i` of a row generated from `seed`: floats from -1 to 1; integers 0 and 1, which are valid in most
// tables.
void Make(DType type, uint8_t* to, int64_t i, uint64_t seed) {
  uint64_t bits = (seed + static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u;
  bits ^= bits >> 31;
  bits *= 0xD6E8FEB86659FD93u;
  if (IsFloat(type)) {
    scalar::Store(type, to, i, static_cast<double>(bits >> 40) / (1 << 23) - 1);
  } else {
    scalar::Store(type, to, i, static_cast<int64_t>(bits >> 40 & 1));
  }
}

// A run of all rows of `program`: the first is generated from seed 1, and the others from `others`.
Result<std::unique_ptr<InferJob>> RunMadeUp(const BatchForm& form, BatchRunner* runner, uint64_t others) {
  auto job = std::make_unique<InferJob>();
  job->form = &form;
  std::copy_n(form.family.buckets().back().rooms.begin(), form.family.lengths().size(), job->choice.lengths);
  job->deadline = Clock::now() + std::chrono::minutes(1);
  for (size_t i = 0; i < form.inputs.size(); ++i) {
    const BucketPort& port = form.input(i).plan;
    const int64_t elements = port.shape.elements(), of_row = elements / form.most_rows();
    Input& input = job->inputs.emplace_back();
    input.index = form.inputs[i];
    input.dtype = port.dtype;
    input.shape = port.shape;
    input.bytes = static_cast<uint64_t>(elements * ByteSize(port.dtype));
    std::vector<uint8_t>& bytes = job->parsed.emplace_back(input.bytes);
    for (int64_t e = 0; e < elements; ++e)
      Make(port.dtype, bytes.data(), e, e < of_row ? 1 : others * 0x10001);
    input.data = bytes.data();
  }
  std::vector<std::unique_ptr<InferJob>> batch;
  batch.push_back(std::move(job));
  RONDO_RETURN_IF_ERROR(runner->Run(batch));
  return std::move(batch[0]);
}

// Whether the first row's results stay the same when the other rows change.
Result<bool> FirstRowStays(const BatchForm& form, BatchRunner* runner) {
  Result<std::unique_ptr<InferJob>> one = RunMadeUp(form, runner, 2), other = RunMadeUp(form, runner, 3);
  for (const auto* result : {&one, &other}) {
    const Code code = result->status().code();
    if (code == Code::kOutOfRange || code == Code::kInvalidArgument) return false;
    RONDO_RETURN_IF_ERROR(result->status());
  }
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    const std::vector<uint8_t>&a = (*one)->outputs[i], &b = (*other)->outputs[i];
    const auto of_row = static_cast<ptrdiff_t>(a.size()) / form.most_rows();
    if (!std::equal(a.begin(), a.begin() + of_row, b.begin())) return false;
  }
  return true;
}

}  // namespace

Status KeepJoiningRows(const PlanData& plan, BatchRunner* runner, std::vector<BatchForm>* forms) {
  RONDO_ASSIGN_OR_RETURN(std::vector<BatchForm> apart, FindBatchForms(plan, false));
  std::vector<BatchForm> kept;
  runner->Prepare(*forms);
  for (BatchForm& form : *forms) {
    bool joins = true;
    if (form.joins()) {
      RONDO_ASSIGN_OR_RETURN(joins, FirstRowStays(form, runner));
    }
    if (!joins && form.proven) form.rows = kNone;
    if (joins || form.proven) {
      kept.push_back(std::move(form));
      continue;
    }
    for (BatchForm& own : apart) {
      const std::string& program = own.programs[0];
      if (std::find(form.programs.begin(), form.programs.end(), program) != form.programs.end())
        kept.push_back(std::move(own));
    }
  }
  *forms = std::move(kept);
  return Status::Ok();
}

}  // namespace rondo::serve
