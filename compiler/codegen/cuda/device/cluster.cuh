// Thread block clusters (sm_90 and later): barriers, and shared memory of the other blocks.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_CLUSTER_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_CLUSTER_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// Until all threads of the cluster are here; what they wrote to shared memory is then seen.
DEV void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// V floats (1, 2 or a multiple of 4) from the shared memory of each block of the cluster, added up. All are
// asked for before the first is waited for.
template <int CLUSTER, int V>
DEV void sum_cluster(u32 address, float* out) {
  float x[CLUSTER][V];
#pragma unroll
  for (int r = 0; r < CLUSTER; ++r) {
    u32 from;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from) : "r"(address), "r"(r));
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
    for (int r = 1; r < CLUSTER; ++r) sum += x[r][v];
    out[v] = sum;
  }
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_CLUSTER_CUH_
