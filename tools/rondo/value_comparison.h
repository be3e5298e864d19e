// CompareValues: compares the values of a program with those of another plan (the reference) that computes
// the same, and finds where they first differ.
//
// Values are paired by the model's names; values without a name, by their ONNX nodes. Both programs run step
// by step on the same inputs, as often as needed to hold only a limited number of bytes of the reference's
// values at a time.
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

// One of the two programs. States that `inputs` lack begin as zeros.
struct ComparedProgram {
  Session* session = nullptr;
  uint32_t program = 0;
  std::vector<Tensor> inputs;

  const PlanData& plan() const { return session->plan().data(); }
  // Runs from the beginning, independent of earlier runs.
  Status Run(const std::vector<StepValue>& wanted, const ValueTaker::Take& take) const;
};

struct ComparedValue {
  StepValue here, reference;
  ValueError error;
  double tolerance = 0;
  bool elsewhere = false;  // the elements are equal, but in another order
  bool differs() const { return error.greatest > tolerance && !elsewhere; }
};

struct ValueComparison {
  std::vector<ComparedValue> values;  // in the order of the plan's steps
  uint32_t alone = 0;                 // values of the plan that the reference lacks
  uint32_t runs = 0;                  // of each program
};

struct CompareOptions {
  double tolerance = 0;                 // for floats; 0: the looser ToleranceOf of both programs
  uint64_t held = uint64_t{256} << 20;  // bytes of the reference held at a time; at least one value is held
  std::function<void(size_t done, size_t of)> progress;
};

Result<ValueComparison> CompareValues(const ComparedProgram& plan, const ComparedProgram& reference,
                                      const CompareOptions& options);

// Those of `names` that the model computes, by name, in any order.
using NamedValues = std::function<Result<std::vector<Tensor>>(const std::vector<std::string>& names)>;
// The same comparison with values of the model from elsewhere. They have no steps, so
// ComparedValue::reference is none.
Result<ValueComparison> CompareNamedValues(const ComparedProgram& plan, const NamedValues& reference,
                                           const CompareOptions& options);

// The place where values first differ.
struct FirstDifference {
  const ComparedValue* value = nullptr;  // null: no relevant difference
  // The steps that may be wrong: the one that wrote the worst element, then the steps before it whose results
  // the reference lacks, up to results that agree.
  std::vector<uint32_t> steps;
  // Values that differ although everything computed from them agrees: the plan uses the name for something
  // else.
  std::vector<const ComparedValue*> harmless;
};
// Runs the plan once more if several steps write the value.
Result<FirstDifference> FindFirst(const ComparedProgram& plan, const ValueComparison& comparison);

}  // namespace rondo::tools
