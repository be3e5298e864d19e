// Runs of tensors with their true shapes, for commands on plans with buckets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "formats/tensor/tensor.h"
#include "runtime/buckets/bucket_session.h"
#include "tools/rondo/run_tensors.h"

namespace rondo::tools {

// The buckets that `program` names: those of a family, or, for "", those of the plan's only family if all of
// its programs belong to it. Null if it names one program.
Result<std::unique_ptr<BucketSession>> OpenBuckets(Session& session, const std::string& program);

// The bucket for `tensors`, with the tensors as its inputs; they must outlive the result.
struct TrueRun {
  BucketFamily::Choice choice;
  uint32_t program = 0;
  std::vector<Input> inputs;
};
Result<TrueRun> ChooseFor(const PlanData& plan, const BucketFamily& family, Span<const Tensor> tensors);
// "batch=3, sequence=20".
std::string LengthsText(const BucketFamily& family, const BucketFamily::Choice& choice);

// Allocates in `tensors` all outputs of the run on this process's devices, with their true shapes.
std::vector<Output> OutputsOf(Session& session, const BucketFamily& family, const TrueRun& run,
                              std::vector<Tensor>* tensors);
// Runs it and returns all outputs of the program on this process's devices, with their true shapes.
Result<std::vector<Tensor>> RunOnBuckets(Session& session, BucketSession& buckets, const TrueRun& run,
                                         const RunOptions& options = {});

}  // namespace rondo::tools
