// MatmulProblem: a matmul or convolution as a matmul. Internal to compiler/codegen/cuda.
//
//   sum_j[batch, m, n] = sum over k of A[batch, m, k] * B_j[batch, n, k]
//
// Each flat index counts through some loops of the part, the last one fastest. A convolution is also such a
// matmul: m counts output points, n output channels, k the kernel's points and the input channels.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/codegen/cuda/device/tile_layout.h"
#include "core/kernel.h"

namespace rondo::cuda {

struct MatmulProblem {
  std::vector<size_t> batch_loops, m_loops, n_loops, k_loops;  // of the part
  int64_t batches = 1, m = 1, n = 1, k = 1;
  int64_t b_count = 1;  // matrices B that one A is multiplied by, equal except for their places
  int adds_up = -1;     // the rhs that is one number instead, which multiplies row sums of A; -1: none
  // How each operand is read: elements in a vector, and whether vectors lie along K (otherwise along M or N).
  // 1: element by element.
  int a_vector = 1, b_vector = 1;
  bool a_k_major = true, b_k_major = true;

  // Steps of `deep` along K.
  int64_t Steps(int64_t deep) const { return (k + deep - 1) / deep; }
  // Tiles of that size, over all batches.
  int64_t Tiles(int64_t tile_m, int64_t tile_n) const {
    return batches * ((m + tile_m - 1) / tile_m) * ((n + tile_n - 1) / tile_n);
  }
};

// The rhs, besides others, that is one number for all of N and K, with 8-bit integers: a zero point of B
// subtracts a multiple of A's row sums through it. -1: none.
int RhsThatAddsUp(const Part& part);

// The rhs that are matrices.
std::vector<uint16_t> MatricesOf(const Part& part, const MatmulProblem& problem);

// No value if A and B do not fit (a B with an index from data or a guard, several B with different layouts).
std::optional<MatmulProblem> MatmulProblemOf(const Part& part, Span<const ParamFacts> params);

// M, N and K for device code.
inline MatmulExtents ExtentsOf(const MatmulProblem& problem) {
  return {static_cast<int>(problem.m), static_cast<int>(problem.n), static_cast<int>(problem.k)};
}

}  // namespace rondo::cuda
