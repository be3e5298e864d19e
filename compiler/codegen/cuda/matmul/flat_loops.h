// FlatLoops: several loops of a part as one. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "core/kernel.h"

namespace rondo::cuda {

// Loops that count through one flat number in the order in which one operand lies in memory, outermost first.
class FlatLoops {
 public:
  FlatLoops(const Part& part, const std::vector<size_t>& loops, const FlatOperand& by);

  int64_t extent() const { return extent_; }
  // How far one step of the number moves an operand, in elements; 0 where there is but one. None if no single
  // stride takes the operand through all of them.
  std::optional<int64_t> Stride(const FlatOperand& operand) const;
  // For each loop of the part, what one step of it adds to the number times `scale`.
  void AddSteps(int64_t scale, std::vector<int64_t>* strides) const;

 private:
  const Part* part_;
  std::vector<size_t> loops_;  // of more than one round
  int64_t extent_ = 1;
};

}  // namespace rondo::cuda
