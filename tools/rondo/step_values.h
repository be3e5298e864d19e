// The contents of a program's buffers, read between the steps of a run.
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

// The buffers that one step reads and writes by its contract, in ascending order, each once. A collective's
// output counts as written by its wait.
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
// Each written buffer after the last step that writes it, in the order of those steps.
std::vector<StepValue> WrittenValues(const std::vector<StepBuffers>& steps);

// Takes values out of runs: calls `take` with each of `wanted`. For a step in a loop it does so once per
// round, so the last call has the last round's value. Holds at most one value at a time. All arguments must
// outlive the runs.
class ValueTaker {
 public:
  using Take = std::function<Status(const StepValue&, std::vector<uint8_t>)>;
  ValueTaker(const Session& session, const std::vector<StepValue>& wanted, const Take& take)
      : session_(session), wanted_(wanted), take_(take) {}
  // The options of a run, which then goes step by step.
  RunOptions options();

 private:
  static Status OnStep(void* user, uint32_t program, uint32_t step, StepPhase phase);
  Status TakeOne(const StepValue& value) const;

  const Session& session_;
  const std::vector<StepValue>& wanted_;
  const Take& take_;
};

// A run only for its values.
Status RunForValues(Session& session, uint32_t program, const std::vector<Tensor>& inputs,
                    const std::vector<StepValue>& wanted, const ValueTaker::Take& take);

// The values that a program calls `name`: a value, or those of an ONNX node. They are taken after the last
// step that writes them; inputs and constants before the first step. kNotFound, with the value's fate or the
// nearest names.
Result<std::vector<StepValue>> ValuesCalled(const PlanData& plan, uint32_t program, const std::string& name);

// `bytes` as the tensor in buffer `buffer`; kUnsupported if the buffer's shape does not tell the layout of
// its bytes.
Result<Tensor> TensorOf(const PlanData& plan, uint32_t buffer, std::vector<uint8_t> bytes);

}  // namespace rondo::tools
