// The end of a matmul by tiles: accumulators of a cluster's blocks added up, and the epilogue called.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TILE_SUMS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TILE_SUMS_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

// The sums of a tile, rows N + 4 apart, of all blocks of the cluster; each block finishes its share of the
// rows.
template <int M, int N, int RIGHTS, int CLUSTER, int VECTOR, typename Finish>
DEV void finish_tile(const float* sums, u32 rank, int row, int column, int rows, int columns, Finish finish) {
  if (CLUSTER > 1) cluster_barrier();
  constexpr int PITCH = N + 4, PIECES = N / VECTOR, SHARE = M / CLUSTER;
  for (int p = threadIdx.x; p < SHARE * PIECES; p += 256) {
    const int r = (int)rank * SHARE + p / PIECES, c = p % PIECES * VECTOR;
    float x[RIGHTS * VECTOR];
#pragma unroll
    for (int j = 0; j < RIGHTS; ++j) {
      const float* from = sums + (j * M + r) * PITCH + c;
      if (CLUSTER > 1)
        sum_cluster<CLUSTER, VECTOR>(shared_address(from), x + j * VECTOR);
      else
        load_shared<VECTOR>(from, x + j * VECTOR);
    }
    if (row + r < rows && column + c < columns) finish(row + r, column + c, x);
  }
  if (CLUSTER > 1) cluster_barrier();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TILE_SUMS_CUH_
