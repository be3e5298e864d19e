// What a program leaves in its buffers, read between the steps of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "formats/tensor/tensor.h"
#include "runtime/session.h"

namespace rondo::tools {

// The buffers that one step reads and writes, by the contracts: ascending, each once. What a collective
// writes, its wait writes.
struct StepBuffers {
  std::vector<uint32_t> reads, writes;
};
std::vector<StepBuffers> BuffersOfSteps(const PlanData& plan, uint32_t program);

// The contents of `buffer` at one moment of a run.
struct StepValue {
  uint32_t buffer = kNone;
  uint32_t step = kNone;
  StepPhase phase = StepPhase::kAfter;
};
// Each buffer that steps write, after the last of them; in the order of those steps.
std::vector<StepValue> WrittenValues(const std::vector<StepBuffers>& steps);

// Takes values out of runs: gives `take` each of `wanted`; of a step in a loop once a round, the last one
// last. At most one value is held at a time. All must outlive the runs.
class ValueTaker {
 public:
  using Take = std::function<Status(const StepValue&, std::vector<uint8_t>)>;
  ValueTaker(const Session& session, const std::vector<StepValue>& wanted, const Take& take)
      : session_(session), wanted_(wanted), take_(take) {}
  // Of a run, which is then step by step.
  RunOptions options();

 private:
  static Status OnStep(void* user, uint32_t program, uint32_t step, StepPhase phase);
  Status TakeOne(const StepValue& value) const;

  const Session& session_;
  const std::vector<StepValue>& wanted_;
  const Take& take_;
};

// A run for its values alone.
Status RunForValues(Session& session, uint32_t program, const std::vector<Tensor>& inputs,
                    const std::vector<StepValue>& wanted, const ValueTaker::Take& take);

// What a program calls `name`: a value, or the values of an ONNX node; after the last step that writes them,
// inputs and constants before the first. kNotFound, saying where the value went or which names are near.
Result<std::vector<StepValue>> ValuesCalled(const PlanData& plan, uint32_t program, const std::string& name);

// `bytes` as the tensor that buffer `buffer` holds; kUnsupported if the buffer's shape does not say how its
// bytes lie.
Result<Tensor> TensorOf(const PlanData& plan, uint32_t buffer, std::vector<uint8_t> bytes);

}  // namespace rondo::tools
