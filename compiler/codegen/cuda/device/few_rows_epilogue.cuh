// The accumulators of a matmul of few rows whose warps and blocks split K, added up, and the epilogue called.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_EPILOGUE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_EPILOGUE_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/few_rows_layout.h"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// The thread's first point of a tile of columns, from `first_n` of n on: fetch(m, n), ahead of the sums.
template <FewRowsMatmul MATMUL, typename Fetch>
DEV void fetch_first_point(u32 rank, int first_n, int n, Fetch fetch) {
  const int p = threadIdx.x * MATMUL.cluster + rank, column = first_n + p % MATMUL.tile_n();
  if (p < MATMUL.points() && column < n) fetch(p / MATMUL.tile_n(), column);
}

// WHOLE: of the bits of 32-bit integers.
template <int WHOLE>
DEV float added(float x, float y) {
  return WHOLE ? __int_as_float((int)((u32)__float_as_int(x) + (u32)__float_as_int(y))) : x + y;
}

// partial[B][warp][row][column] of every block of the cluster, a tile of columns from `first_n` of n on. The
// total of a block's warps goes behind them; each block has its share of the points: epilogue(m, n,
// accumulators of each B), and before, but for the thread's first point, fetch(m, n).
template <FewRowsMatmul MATMUL, typename Fetch, typename Epilogue>
DEV void few_rows_epilogue(float* partial, u32 rank, int first_n, int n, Fetch fetch, Epilogue epilogue) {
  constexpr int B_COUNT = MATMUL.b_count + MATMUL.sums, TILE_N = MATMUL.tile_n(), POINTS = MATMUL.points();
  constexpr int WARPS = MATMUL.warps, CLUSTER = MATMUL.cluster, THREADS = MATMUL.threads();
  float* total = partial + B_COUNT * WARPS * POINTS;
  __syncthreads();
  if (CLUSTER > 1) {
    for (int p = threadIdx.x; p < B_COUNT * POINTS; p += THREADS) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < WARPS; ++w)
        sum = added<MATMUL.whole>(sum, partial[(p / POINTS * WARPS + w) * POINTS + p % POINTS]);
      total[p] = sum;
    }
    cluster_barrier();
  }
  for (int p = threadIdx.x * CLUSTER + rank; p < POINTS; p += THREADS * CLUSTER) {
    const int row = p / TILE_N, column = first_n + p % TILE_N;
    if (p >= THREADS * CLUSTER && column < n) fetch(row, column);
    float sums[B_COUNT];
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j) {
      if (CLUSTER > 1) {
        sum_cluster<CLUSTER, 1, MATMUL.whole != 0>(shared_address(total + j * POINTS + p), sums + j);
      } else {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) sum = added<MATMUL.whole>(sum, partial[(j * WARPS + w) * POINTS + p]);
        sums[j] = sum;
      }
    }
    if (column < n) epilogue(row, column, sums);
  }
  meet_blocks<CLUSTER>();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_EPILOGUE_CUH_
