// TmaOperands: what TMA sees of a matmul's A and Bs. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "core/plan.h"

namespace rondo::cuda {

struct TmaOperands {
  // A's map (K, M, far K, far M, batches), then one a B (line, lines, batches); the lines of boxes are left
  // open.
  std::vector<TensorMap> maps;
  int64_t m_run = 1, k_run = 1;  // of M and K, what lies evenly in A
};

// With A's map alone; what B is does not matter. None as below.
std::optional<TmaOperands> TmaAOf(const Part& part, const MatmulProblem& problem);
// None if strides are no multiples of 16 bytes, or if loops lie so that more dimensions would be needed.
std::optional<TmaOperands> TmaOperandsOf(const Part& part, const MatmulProblem& problem);

}  // namespace rondo::cuda
