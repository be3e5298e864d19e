// MatmulProblem: a matmul or convolution as a matmul. Internal to compiler/codegen/cuda.
//
//   sum_j[batch, m, n] = sum over k of A[batch, m, k] * B_j[batch, n, k]
//
// Each flat number counts through some loops of the part, the last one fastest. A convolution is such a
// matmul too: m counts output points, n output channels, k the kernel's points and the input channels.
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
  int64_t b_count = 1;  // matrices B that one A is multiplied by, alike but for where they lie
  int adds_up = -1;     // the rhs that is no such B: one number, by which A is only added up; -1: none
  // How either operand is read: elements a vector, and whether vectors lie along K (else along M or N). 1:
  // element by element.
  int a_vector = 1, b_vector = 1;
  bool a_k_major = true, b_k_major = true;

  // Runs of `deep` of K.
  int64_t Steps(int64_t deep) const { return (k + deep - 1) / deep; }
  // Tiles of that size, of all batches.
  int64_t Tiles(int64_t tile_m, int64_t tile_n) const {
    return batches * ((m + tile_m - 1) / tile_m) * ((n + tile_n - 1) / tile_n);
  }
};

// Which rhs beside others is one number for all of N and K, of 8-bit integers: by it a zero point of B takes
// away what A sums to. -1: none.
int RhsThatAddsUp(const Part& part);

// The rhs that are matrices B.
std::vector<uint16_t> MatricesOf(const Part& part, const MatmulProblem& problem);

// None if A and B do not fit (a B with an index from data or a guard, several B that lie differently).
std::optional<MatmulProblem> MatmulProblemOf(const Part& part, Span<const ParamFacts> params);

// M, N and K as device code has them.
inline MatmulExtents ExtentsOf(const MatmulProblem& problem) {
  return {static_cast<int>(problem.m), static_cast<int>(problem.n), static_cast<int>(problem.k)};
}

}  // namespace rondo::cuda
