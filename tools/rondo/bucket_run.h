// Runs of tensors of true shape, for commands, where a plan has buckets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "formats/tensor/tensor.h"
#include "runtime/buckets/bucket_session.h"
#include "tools/rondo/loaded.h"

namespace rondo::tools {

// The buckets that `program` means: a family's name, or, for "", the plan's only family where all of its
// programs are of it. Null where it means one program.
Result<std::unique_ptr<BucketSession>> OpenBuckets(Session& session, const std::string& program);

// The bucket for `tensors`, as inputs; they must outlive the result.
struct TrueRun {
  BucketFamily::Choice choice;
  uint32_t program = 0;
  std::vector<Input> inputs;
};
Result<TrueRun> ChooseFor(const PlanData& plan, const BucketFamily& family, Span<const Tensor> tensors);
// "batch=3, sequence=20".
std::string LengthsText(const BucketFamily& family, const BucketFamily::Choice& choice);

// Room in `tensors` for all outputs of the run on this process's devices, of their true shapes.
std::vector<Output> OutputsOf(Session& session, const BucketFamily& family, const TrueRun& run,
                              std::vector<Tensor>* tensors);
// Runs it and returns all outputs of the program on this process's devices, of their true shapes.
Result<std::vector<Tensor>> RunOnBuckets(Session& session, BucketSession& buckets, const TrueRun& run,
                                         const RunOptions& options = {});

}  // namespace rondo::tools
