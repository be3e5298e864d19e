// TmaOperands: the tensor maps of a matmul's A and Bs, and of its results. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/device/tma_layout.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "core/plan.h"

namespace rondo::cuda {

struct TmaOperands {
  // A's map (K, M, far K, far M, batches), then one for each B (line, lines, batches); the number of lines in
  // a box is left open.
  std::vector<TensorMap> maps;
  int64_t m_run = 1, k_run = 1;  // lengths along M and K for which A is evenly strided
};

// With A's map alone, for any B. No value: as below.
std::optional<TmaOperands> TmaAOf(const Part& part, const MatmulProblem& problem);
// No value if strides are not multiples of 16 bytes, or if the loops need more dimensions.
std::optional<TmaOperands> TmaOperandsOf(const Part& part, const MatmulProblem& problem);

// Results that TMA stores in boxes of 16 rows.
struct TmaResults {
  size_t operand = 0;
  TensorMap map;  // N, M, far N, far M, batches; the columns of a box are left open
  TmaRuns runs = {1, 1};
};
// No value unless the epilogue stores one operand, of 16 bits, whose boxes of 16 rows and up to 64 columns
// TMA can store, and combines nothing.
std::optional<TmaResults> TmaResultsOf(const Part& part, const MatmulProblem& problem);

}  // namespace rondo::cuda
