// The end of a matmul by tiles: accumulators of a cluster's blocks added up, and the epilogue called.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TILE_EPILOGUE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TILE_EPILOGUE_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/tile_layout.h"

// A warp's accumulators (floats, or ints whose bits lie where floats would), MS x NS fragments of mma (16 x
// 8), to rows and columns from (row, column) on of a tile of N columns; `add`: to what is there.
template <int N, int MS, int NS, typename T>
DEV void store_fragments(T* sums, int row, int column, const T (*acc)[NS][4], bool add) {
  struct alignas(8) Pair {
    T x, y;
  };
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int m = 0; m < MS; ++m)
#pragma unroll
    for (int n = 0; n < NS; ++n)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        Pair* to = (Pair*)(sums + (row + m * 16 + (lane >> 2) + 8 * h) * AccumulatorsPitch(N) + column +
                           n * 8 + (lane & 3) * 2);
        Pair v = {acc[m][n][2 * h], acc[m][n][2 * h + 1]};
        if (add) {
          const Pair old = *to;
          v.x += old.x;
          v.y += old.y;
        }
        *to = v;
      }
}

// Adds to x what lies at `from`. WHOLE: the bits of integers.
template <int V, bool WHOLE>
DEV void add_shared(const float* from, float* x) {
  float more[V];
  load_shared<V>(from, more);
#pragma unroll
  for (int v = 0; v < V; ++v)
    x[v] = WHOLE ? __int_as_float(__float_as_int(x[v]) + __float_as_int(more[v])) : x[v] + more[v];
}

// The accumulators of a tile, rows AccumulatorsPitch(N) apart, of all blocks of the cluster; each block
// has its share of the rows. COPIES of them in a block, one behind the other, are added up. WHOLE: they are
// the bits of 32-bit integers, before and after. Behind those of all B come what rows of A sum to, where
// MATMUL has them.
template <TileMatmul MATMUL, bool WHOLE, int COPIES, typename Epilogue>
DEV void tile_epilogue(const float* accumulators, u32 rank, int row, int column, MatmulExtents problem,
                       Epilogue epilogue) {
  constexpr int M = MATMUL.m, N = MATMUL.n, B_COUNT = MATMUL.b_count, CLUSTER = MATMUL.cluster,
                LANES = MATMUL.lanes;
  if (CLUSTER > 1) cluster_barrier();
  constexpr int PITCH = AccumulatorsPitch(N), PIECES = N / LANES, SHARE = M / CLUSTER;
  constexpr int COPY = B_COUNT * M * PITCH;
  static_assert(COPIES == 1 || CLUSTER == 1, "blocks of a cluster have one copy each");
  for (int p = threadIdx.x; p < SHARE * PIECES; p += kBlockThreads) {
    const int r = (int)rank * SHARE + (MATMUL.down ? p % SHARE : p / PIECES),
              c = (MATMUL.down ? p / SHARE : p % PIECES) * LANES;
    float x[(B_COUNT + MATMUL.sums) * LANES];
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j) {
      const float* from = accumulators + (j * M + r) * PITCH + c;
      if (CLUSTER > 1)
        sum_cluster<CLUSTER, LANES, WHOLE>(shared_address(from), x + j * LANES);
      else
        load_shared<LANES>(from, x + j * LANES);
#pragma unroll
      for (int copy = 1; copy < COPIES; ++copy) add_shared<LANES, WHOLE>(from + copy * COPY, x + j * LANES);
    }
    if constexpr (MATMUL.sums != 0) {
      const float* from = accumulators + r * PITCH + N;
      float sum = *from;
      if (CLUSTER > 1) sum_cluster<CLUSTER, 1, WHOLE>(shared_address(from), &sum);
#pragma unroll
      for (int copy = 1; copy < COPIES; ++copy) add_shared<1, WHOLE>(from + copy * COPY, &sum);
#pragma unroll
      for (int e = 0; e < LANES; ++e) x[B_COUNT * LANES + e] = sum;
    }
    if (row + r < problem.m && column + c < problem.n) epilogue(row + r, column + c, x);
  }
  if (CLUSTER > 1) cluster_barrier();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TILE_EPILOGUE_CUH_
