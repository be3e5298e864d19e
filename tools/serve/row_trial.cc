#include "tools/serve/row_trial.h"

#include <algorithm>

#include "core/scalar.h"

namespace rondo::serve {

namespace {

// Element `i` of a row made up from `seed`: floats in -1 to 1, integers 0 and 1, which most tables have.
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

// A run of all rows of `program`, of which the first is made from seed 1 and the others from `others`.
Result<std::unique_ptr<InferJob>> RunMadeUp(const BatchForm& form, BatchRunner* runner, uint64_t others) {
  auto job = std::make_unique<InferJob>();
  job->form = &form;
  job->rows = form.most_rows();
  job->deadline = Clock::now() + std::chrono::minutes(1);
  for (const PortForm& port : form.inputs) {
    std::vector<uint8_t>& bytes = job->parsed.emplace_back(port.row_bytes * static_cast<uint64_t>(job->rows));
    const int64_t each = static_cast<int64_t>(port.row_bytes) / ByteSize(port.dtype);
    for (int64_t i = 0; i < each * job->rows; ++i)
      Make(port.dtype, bytes.data(), i, i < each ? 1 : others * 0x10001);
  }
  for (const auto& bytes : job->parsed) job->inputs.push_back(bytes.data());
  std::vector<std::unique_ptr<InferJob>> batch;
  batch.push_back(std::move(job));
  RONDO_RETURN_IF_ERROR(runner->Run(batch));
  return std::move(batch[0]);
}

// Whether the first row comes out as it did, whatever the others are.
Result<bool> FirstRowStays(const BatchForm& form, BatchRunner* runner) {
  Result<std::unique_ptr<InferJob>> one = RunMadeUp(form, runner, 2), other = RunMadeUp(form, runner, 3);
  for (const auto* result : {&one, &other}) {
    const Code code = result->status().code();
    if (code == Code::kOutOfRange || code == Code::kInvalidArgument) return false;
    RONDO_RETURN_IF_ERROR(result->status());
  }
  for (size_t i = 0; i < form.outputs.size(); ++i) {
    const auto bytes = static_cast<ptrdiff_t>(form.outputs[i].row_bytes);
    const std::vector<uint8_t>&a = (*one)->outputs[i], &b = (*other)->outputs[i];
    if (!std::equal(a.begin(), a.begin() + bytes, b.begin())) return false;
  }
  return true;
}

}  // namespace

Status KeepJoiningRows(const PlanData& plan, BatchRunner* runner, std::vector<BatchForm>* forms) {
  std::vector<BatchForm> apart = FindBatchForms(plan, false), kept;
  for (BatchForm& form : *forms) {
    bool joins = form.joins && form.most_rows() > 1;
    if (joins) {
      RONDO_ASSIGN_OR_RETURN(joins, FirstRowStays(form, runner));
    }
    if (joins || !form.joins) {
      kept.push_back(std::move(form));
      continue;
    }
    for (BatchForm& own : apart) {
      const bool is_of = std::any_of(form.programs.begin(), form.programs.end(), [&](const SizedProgram& p) {
        return p.program == own.programs[0].program;
      });
      if (is_of) kept.push_back(std::move(own));
    }
  }
  *forms = std::move(kept);
  return Status::Ok();
}

}  // namespace rondo::serve
