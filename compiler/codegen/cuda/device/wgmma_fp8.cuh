// wgmma on FP8 (sm_90a): 32 of K an instruction, and accumulators that do not lose what it rounds.
//
// The units align what an instruction adds, its accumulator among it, by the greatest of it, and drop what
// lies far below. So a tile's sums of 128 of K begin at 0 and are added up in f32.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_FP8_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_FP8_CUH_

#include "compiler/codegen/cuda/device/wgmma_tile.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

#define WGMMA_FP8_TYPED(types, n, count, a_name, b_name) \
  WGMMA_ADD_OR_SET("n" #n "k32.f32." types, count, WGMMA_FLOATS, a_name, b_name, ", 1, 1", "l"(a), "l"(b))
#define WGMMA_FP8(n, count, a_name, b_name)                                                         \
  if constexpr (N == n && A_E5M2 && B_E5M2) WGMMA_FP8_TYPED("e5m2.e5m2", n, count, a_name, b_name)  \
  if constexpr (N == n && A_E5M2 && !B_E5M2) WGMMA_FP8_TYPED("e5m2.e4m3", n, count, a_name, b_name) \
  if constexpr (N == n && !A_E5M2 && B_E5M2) WGMMA_FP8_TYPED("e4m3.e5m2", n, count, a_name, b_name) \
  if constexpr (N == n && !A_E5M2 && !B_E5M2) WGMMA_FP8_TYPED("e4m3.e4m3", n, count, a_name, b_name)

// d (64 x N; N / 2 sums of each thread) += A (64 x 32) * B (32 x N), or = without ADDS, begun: complete after
// wgmma_wait. `a` and `b` as wgmma_descriptor makes them; lines of both run along K.
template <int N, bool A_E5M2, bool B_E5M2, bool ADDS>
DEV void wgmma_fp8(float* d, u64 a, u64 b) {
  static_assert(N == 64 || N == 96 || N == 128 || N == 160 || N == 192 || N == 256,
                "a width of wgmma that has its line here");
  WGMMA_FP8(64, 32, "%32", "%33")
  WGMMA_FP8(96, 48, "%48", "%49")
  WGMMA_FP8(128, 64, "%64", "%65")
  WGMMA_FP8(160, 80, "%80", "%81")
  WGMMA_FP8(192, 96, "%96", "%97")
  WGMMA_FP8(256, 128, "%128", "%129")
}

// sums = 64 rows of A * B_COUNT matrices B of N columns, B_BYTES each, of a stage: K of 128, lines of 128
// bytes. One instruction multiplies with AT_ONCE of them. Begun: complete after wgmma_wait.
template <int N, int B_COUNT, int B_BYTES, int AT_ONCE, bool A_E5M2, bool B_E5M2>
DEV void wgmma_fp8_stage(float* sums, u32 a, u32 b) {
  wgmma_fence();
#pragma unroll
  for (int s = 0; s < 4; ++s)
#pragma unroll
    for (int j = 0; j < B_COUNT; j += AT_ONCE) {
      const u64 left = wgmma_descriptor(a + s * 32, 0), right = wgmma_descriptor(b + j * B_BYTES + s * 32, 0);
      if (s == 0)
        wgmma_fp8<N * AT_ONCE, A_E5M2, B_E5M2, false>(sums + j * N / 2, left, right);
      else
        wgmma_fp8<N * AT_ONCE, A_E5M2, B_E5M2, true>(sums + j * N / 2, left, right);
    }
  wgmma_commit();
}

// As WgmmaTile, of FP8.
template <int N, int B_COUNT, int B_BYTES, bool A_E5M2, bool B_E5M2>
struct Fp8WgmmaTile : WgmmaAccumulators<N, B_COUNT> {
  using WgmmaAccumulators<N, B_COUNT>::acc;
  static constexpr int GROUP_BYTES = 64 * 128;

  float sums[B_COUNT * N / 2];  // of a stage

  // Begins: complete after add. `a`: the group's rows; `b`: the first matrix.
  MEMBER void multiply(u32 a, u32 b) { wgmma_fp8_stage<N, B_COUNT, B_BYTES, 1, A_E5M2, B_E5M2>(sums, a, b); }
  MEMBER void add() {
    wgmma_wait<0>();
#pragma unroll
    for (int x = 0; x < B_COUNT * N / 2; ++x) acc[x] += sums[x];
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_FP8_CUH_
