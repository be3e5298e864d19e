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
// combined: every thread has the result. All threads of a block of 256 call it.
template <typename Op, int WIDE, int LANES, int CLUSTER, typename T>
DEV void join_columns(T (&values)[LANES], T (&result)[LANES]) {
  __shared__ __align__(16) T warps[9][WIDE * LANES];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, column = threadIdx.x % WIDE;
#pragma unroll
  for (int e = 0; e < LANES; ++e) {
#pragma unroll
    for (int d = WIDE; d < 32; d <<= 1)
      values[e] = Op::of(values[e], (T)__shfl_xor_sync(0xffffffffu, values[e], d));
  }
  __syncthreads();  // what an earlier call left has been read
  if (lane < WIDE) {
#pragma unroll
    for (int e = 0; e < LANES; ++e) warps[warp][column * LANES + e] = values[e];
  }
  __syncthreads();
  if (CLUSTER > 1) {
    for (int p = threadIdx.x; p < WIDE * LANES; p += kBlockThreads) {
      T total = warps[0][p];
#pragma unroll
      for (int w = 1; w < 8; ++w) total = Op::of(total, warps[w][p]);
      warps[8][p] = total;
    }
    cluster_barrier();
  }
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
  if (CLUSTER > 1) cluster_barrier();
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_COLUMNS_CUH_
