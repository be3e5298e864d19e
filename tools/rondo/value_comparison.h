// CompareValues: the values of a program beside those of another plan's, the reference's, that computes the
// same; and where they first come apart.
//
// Values are paired by the names that the model gives them, those without one by the ONNX nodes that they
// come from. Both programs run step by step, on the same inputs, as often as it takes to hold no more than
// some bytes of the reference's values at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/status.h"
#include "formats/tensor/tensor.h"
#include "runtime/session.h"
#include "tools/rondo/step_values.h"
#include "tools/rondo/value_error.h"

namespace rondo::tools {

// One of the two programs. States begin as zeros where `inputs` do not have them.
struct ComparedProgram {
  Session* session = nullptr;
  uint32_t program = 0;
  std::vector<Tensor> inputs;

  const PlanData& plan() const { return session->plan().data(); }
  // Runs from the beginning, whatever ran before.
  Status Run(const std::vector<StepValue>& wanted, const ValueTaker::Take& take) const;
};

struct ComparedValue {
  StepValue here, reference;
  ValueError error;
  double tolerance = 0;
  bool elsewhere = false;  // the elements are the same, but in another order
  bool differs() const { return error.greatest > tolerance && !elsewhere; }
};

struct ValueComparison {
  std::vector<ComparedValue> values;  // in the order of the plan's steps
  uint32_t alone = 0;                 // values of the plan that the reference does not have
  uint32_t runs = 0;                  // of each program
};

struct CompareOptions {
  double tolerance = 0;                 // of floats; 0: the looser of the two programs' ToleranceOf
  uint64_t held = uint64_t{256} << 20;  // bytes of the reference's values held at a time; one is held always
  std::function<void(size_t done, size_t of)> progress;
};

Result<ValueComparison> CompareValues(const ComparedProgram& plan, const ComparedProgram& reference,
                                      const CompareOptions& options);

// The values of those of `names` that the model computes, by name; in any order.
using NamedValues = std::function<Result<std::vector<Tensor>>(const std::vector<std::string>& names)>;
// The same beside another program's values of the model's, which have no steps: those of
// ComparedValue::reference are none.
Result<ValueComparison> CompareNamedValues(const ComparedProgram& plan, const NamedValues& reference,
                                           const CompareOptions& options);

// Where values first come apart.
struct FirstDifference {
  const ComparedValue* value = nullptr;  // null: nothing that matters differs
  // The steps that may be wrong: that which wrote the worst element, then those before it whose results the
  // reference does not have, up to results that agree.
  std::vector<uint32_t> steps;
  // Values that differ, though all that is computed from them agrees: the plan means something else by the
  // name.
  std::vector<const ComparedValue*> harmless;
};
// Runs the plan once more where several steps write the value.
Result<FirstDifference> FindFirst(const ComparedProgram& plan, const ValueComparison& comparison);

}  // namespace rondo::tools
