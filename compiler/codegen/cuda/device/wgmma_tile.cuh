// Accumulators of a tile by wgmma (sm_90a): what they add of a stage, and how they come to shared memory.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_TILE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_TILE_CUH_

#include "compiler/codegen/cuda/device/wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// What a warpgroup has of a tile of 64 rows, with B_COUNT matrices B of N columns.
template <int N, int B_COUNT>
struct WgmmaAccumulators {
  float acc[B_COUNT * N / 2];

  MEMBER void zero() {
#pragma unroll
    for (int x = 0; x < B_COUNT * N / 2; ++x) acc[x] = 0;
  }
  // COLUMNS of matrix j from column `first` on, to rows `pitch` floats apart; `to`: where the warp's 16 rows
  // begin.
  template <int COLUMNS>
  MEMBER void store(float* to, int pitch, int j, int first) const {
    const int lane = threadIdx.x & 31;
#pragma unroll
    for (int x = 0; x < COLUMNS / 2; x += 2)
      *(float2*)(to + ((lane >> 2) + (x & 2) * 4) * pitch + x / 4 * 8 + (lane & 3) * 2) =
          make_float2(acc[(j * N + first) / 2 + x], acc[(j * N + first) / 2 + x + 1]);
  }
};

// 64 rows of A, in a warpgroup, with B_COUNT matrices B of N columns, K of 64 at a time. A stage
// has A's tile, 64 rows after 64 rows, then the matrices, B_BYTES each; one instruction multiplies with
// AT_ONCE of them. B_K_MAJOR: lines of B run along K; else panels of 64 columns, whose lines do.
template <int N, int B_COUNT, int B_BYTES, int AT_ONCE, bool B_K_MAJOR, bool BF16>
struct WgmmaTile : WgmmaAccumulators<N, B_COUNT> {
  using WgmmaAccumulators<N, B_COUNT>::acc;
  static constexpr int GROUP_BYTES = 64 * 64 * 2, PANEL_BYTES = 64 * 64 * 2;

  // Begins: complete after wgmma_wait. `a`: the group's rows; `b`: the first matrix.
  MEMBER void multiply(u32 a, u32 b) {
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < 4; ++s)
#pragma unroll
      for (int j = 0; j < B_COUNT; j += AT_ONCE)
        wgmma<N * AT_ONCE, BF16, !B_K_MAJOR>(
            acc + j * N / 2, wgmma_descriptor(a + s * 32, 0),
            wgmma_descriptor(b + j * B_BYTES + s * (B_K_MAJOR ? 32 : 2048), B_K_MAJOR ? 0 : PANEL_BYTES));
    wgmma_commit();
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_WGMMA_TILE_CUH_
