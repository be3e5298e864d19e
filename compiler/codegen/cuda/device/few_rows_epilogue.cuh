// The sums of a matmul of few rows whose warps and blocks split K, added up and finished.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_EPILOGUE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_EPILOGUE_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// partial[B][warp][row][column] of every block of the cluster, a tile of TILE columns from `column` on. The
// total of a block's warps goes behind them; each block finishes its share of the points: finish(row, column,
// sums of each B).
template <int RIGHTS, int ROWS, int TILE, int WARPS, int CLUSTER, typename Finish>
DEV void few_rows_epilogue(float* partial, u32 rank, int column, int columns, Finish finish) {
  constexpr int POINTS = ROWS * TILE;
  float* total = partial + RIGHTS * WARPS * POINTS;
  __syncthreads();
  if (CLUSTER > 1) {
    for (int p = threadIdx.x; p < RIGHTS * POINTS; p += kBlockThreads) {
      float sum = 0;
#pragma unroll
      for (int w = 0; w < WARPS; ++w) sum += partial[(p / POINTS * WARPS + w) * POINTS + p % POINTS];
      total[p] = sum;
    }
    cluster_barrier();
  }
  for (int p = threadIdx.x * CLUSTER + rank; p < POINTS; p += kBlockThreads * CLUSTER) {
    const int row = p / TILE, c = column + p % TILE;
    float sums[RIGHTS];
#pragma unroll
    for (int j = 0; j < RIGHTS; ++j) {
      if (CLUSTER > 1) {
        sum_cluster<CLUSTER, 1>(shared_address(total + j * POINTS + p), sums + j);
      } else {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w) sum += partial[(j * WARPS + w) * POINTS + p];
        sums[j] = sum;
      }
    }
    if (c < columns) finish(row, c, sums);
  }
  if (CLUSTER > 1)
    cluster_barrier();
  else
    __syncthreads();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FEW_ROWS_EPILOGUE_CUH_
