// The warps of a block that multiply by mma.sync, warps_m x warps_n x warps_k: what each has of a tile.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MMA_WARPS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MMA_WARPS_CUH_

#include "compiler/codegen/cuda/device/tile_epilogue.cuh"

// What is the same of all policies Multiply of matmul_tiles by mma.sync: DEPTH of K an instruction,
// accumulators of type SUM, stages as LAYOUT has them.
template <TileMatmul T, int DEPTH, typename SUM, TileLayout OF>
struct MmaWarps {
  static constexpr TileMatmul MATMUL = T;
  static constexpr TileLayout LAYOUT = OF;
  static constexpr int WARPS_M = T.warps_m, WARPS_N = T.warps_n, WARPS_K = T.warps_k, B_COUNT = T.b_count;
  static constexpr int PANELS = 1, STAGE = LAYOUT.stage(), B_BYTES = LAYOUT.b_bytes;
  static constexpr bool RUNS_ON = false;
  static constexpr int WARP_M = T.m / WARPS_M, WARP_N = T.n / WARPS_N, MS = WARP_M / 16, NS = WARP_N / 8;
  static constexpr int SUBSTEPS = T.k / DEPTH / WARPS_K;  // of a stage, of each warp

  u32 memory;
  int lane, warp_m, warp_n, warp_k;
  SUM acc[B_COUNT][MS][NS][4];

  MEMBER explicit MmaWarps(u32 memory) : memory(memory) {
    const int warp = threadIdx.x >> 5;
    lane = threadIdx.x & 31;
    warp_m = warp % WARPS_M;
    warp_n = warp / WARPS_M % WARPS_N;
    warp_k = warp / (WARPS_M * WARPS_N);
#pragma unroll
    for (int x = 0; x < B_COUNT * MS * NS * 4; ++x) (&acc[0][0][0][0])[x] = 0;
  }
  MEMBER void wait() {}
  // Of warps that split K each has its copy, or they come one after another.
  static constexpr int COPIES = LAYOUT.copies, COPY = B_COUNT * T.m * AccumulatorsPitch(T.n);
  MEMBER void store(float* accumulators) const {
    if constexpr (COPIES > 1) {
      store(accumulators + warp_k * COPY, false);
      __syncthreads();
      return;
    }
#pragma unroll
    for (int w = 0; w < WARPS_K; ++w) {
      if (warp_k == w) store(accumulators, w > 0);
      __syncthreads();
    }
  }
  MEMBER void store(float* accumulators, bool add) const {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
      store_fragments<T.n, MS, NS>((SUM*)accumulators + j * T.m * AccumulatorsPitch(T.n), warp_m * WARP_M,
                                   warp_n * WARP_N, acc[j], add);
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MMA_WARPS_CUH_
