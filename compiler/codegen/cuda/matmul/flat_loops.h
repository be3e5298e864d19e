// FlatLoops: treats several loops of a part as one. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "core/kernel.h"

namespace rondo::cuda {

// Loops counted by one flat index, in the memory order of one operand, outermost first.
class FlatLoops {
 public:
  FlatLoops(const Part& part, const std::vector<size_t>& loops, const FlatOperand& by);

  int64_t extent() const { return extent_; }
  // The distance in elements by which one step of the flat index moves an operand; 0 for a single point. No
  // value if no single stride fits all of the loops.
  std::optional<int64_t> Stride(const FlatOperand& operand) const;
  // For each loop of the part, what one step adds to the flat index, times `scale`.
  void AddSteps(int64_t scale, std::vector<int64_t>* strides) const;

 private:
  const Part* part_;
  std::vector<size_t> loops_;  // with more than one iteration
  int64_t extent_ = 1;
};

}  // namespace rondo::cuda
