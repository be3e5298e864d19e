// Thread block clusters (sm_90 and later): barriers, and shared memory of the other blocks.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_CLUSTER_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_CLUSTER_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// Until all threads of the cluster are here; what they wrote to shared memory is then seen.
DEV void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Until all threads of the cluster are here. It waits for no writes, unlike cluster_barrier, which waits
// until the whole GPU could see them (some 1,000 cycles).
DEV void cluster_meet() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Until all threads of a cluster of CLUSTER blocks (1: of the block) are here; what they wrote to shared
// memory is then seen.
template <int CLUSTER>
DEV void meet_blocks() {
  if (CLUSTER > 1)
    cluster_barrier();
  else
    __syncthreads();
}

// The address, in the cluster, of what lies at `address` in the shared memory of block `block` of it.
DEV u32 remote_shared(u32 address, u32 block) {
  u32 far;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(address), "r"(block));
  return far;
}
// A value of 2, 4 or 8 bytes there.
template <typename T>
DEV T remote_value(u32 address, u32 block) {
  const u32 from = remote_shared(address, block);
  if constexpr (sizeof(T) == 2) {
    unsigned short bits;
    asm volatile("ld.shared::cluster.u16 %0, [%1];" : "=h"(bits) : "r"(from) : "memory");
    return *(T*)&bits;
  } else if constexpr (sizeof(T) == 4) {
    u32 bits;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(bits) : "r"(from) : "memory");
    return *(T*)&bits;
  } else {
    u64 bits;
    asm volatile("ld.shared::cluster.u64 %0, [%1];" : "=l"(bits) : "r"(from) : "memory");
    return *(T*)&bits;
  }
}
// V floats (1, 2 or a multiple of 4) from the shared memory of COUNT blocks of the cluster, `stride` apart
// from block `first` on, added up. All are asked for before the first is waited for. WHOLE: they are the bits
// of 32-bit integers.
template <int COUNT, int V, bool WHOLE = false>
DEV void sum_blocks(u32 address, u32 first, u32 stride, float* out) {
  float x[COUNT][V];
#pragma unroll
  for (int r = 0; r < COUNT; ++r) {
    const u32 from = remote_shared(address, first + r * stride);
    if (V == 1) asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x[r][0]) : "r"(from));
    if (V == 2)
      asm volatile("ld.shared::cluster.v2.f32 {%0,%1}, [%2];" : "=f"(x[r][0]), "=f"(x[r][V - 1]) : "r"(from));
#pragma unroll
    for (int v = 0; v + 3 < V; v += 4)
      asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(x[r][v]), "=f"(x[r][v + 1]), "=f"(x[r][v + 2]), "=f"(x[r][v + 3])
                   : "r"(from + 4 * v));
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    float sum = x[0][v];
#pragma unroll
    for (int r = 1; r < COUNT; ++r)
      sum = WHOLE ? __int_as_float(__float_as_int(sum) + __float_as_int(x[r][v])) : sum + x[r][v];
    out[v] = sum;
  }
}
// Of all blocks.
template <int CLUSTER, int V, bool WHOLE = false>
DEV void sum_cluster(u32 address, float* out) {
  sum_blocks<CLUSTER, V, WHOLE>(address, 0, 1, out);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_CLUSTER_CUH_
