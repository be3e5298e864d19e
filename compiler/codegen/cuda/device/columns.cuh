// Reductions of rows that lie side by side: threads of a block share the elements of the same rows.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COLUMNS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COLUMNS_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

template <typename T>
DEV T of_cluster(const T* p, int rank) {
  u32 at;
  T value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(p)), "r"(rank));
  if constexpr (sizeof(T) == 4) {
    u32 bits;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(bits) : "r"(at) : "memory");
    value = *(T*)&bits;
  } else {
    u64 bits;
    asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(bits) : "r"(at) : "memory");
    value = *(T*)&bits;
  }
  return value;
}

// values[e] of all threads of the block (and of the cluster's blocks) with the same threadIdx.x % WIDE,
// combined, in three steps, so that several values share what is waited for between them. All threads of a
// block of 256 take them; `warps`: shared, a line for each warp and one for their totals.
//
// First, of each warp; then __syncthreads.
template <typename Op, int WIDE, int LANES, typename T>
DEV void join_columns_of_warp(T (&values)[LANES], T (*warps)[WIDE * LANES]) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, column = threadIdx.x % WIDE;
#pragma unroll
  for (int e = 0; e < LANES; ++e) {
#pragma unroll
    for (int d = WIDE; d < 32; d <<= 1)
      values[e] = Op::of(values[e], (T)__shfl_xor_sync(0xffffffffu, values[e], d));
    if (lane < WIDE) warps[warp][column * LANES + e] = values[e];
  }
}
// Second, of each block of a cluster; then cluster_barrier.
template <typename Op, int WIDE, int LANES, typename T>
DEV void join_columns_of_block(T (*warps)[WIDE * LANES]) {
  for (int p = threadIdx.x; p < WIDE * LANES; p += kBlockThreads) {
    T total = warps[0][p];
#pragma unroll
    for (int w = 1; w < 8; ++w) total = Op::of(total, warps[w][p]);
    warps[8][p] = total;
  }
}
// Last, of all: every thread has the result. No block of a cluster ends before all have come so far.
template <typename Op, int WIDE, int LANES, int CLUSTER, typename T>
DEV void join_columns_of_all(T (*warps)[WIDE * LANES], T (&result)[LANES]) {
  const int column = threadIdx.x % WIDE;
#pragma unroll
  for (int e = 0; e < LANES; ++e) {
    if (CLUSTER > 1) {
      result[e] = of_cluster(&warps[8][column * LANES + e], 0);
#pragma unroll
      for (int r = 1; r < CLUSTER; ++r)
        result[e] = Op::of(result[e], of_cluster(&warps[8][column * LANES + e], r));
    } else {
      result[e] = warps[0][column * LANES + e];
#pragma unroll
      for (int w = 1; w < 8; ++w) result[e] = Op::of(result[e], warps[w][column * LANES + e]);
    }
  }
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COLUMNS_CUH_
