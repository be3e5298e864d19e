// What the templates of fast products share, as CUDA C++: copies, 16-bit fragments, sums over the blocks of a
// cluster.
#include "compiler/codegen/cuda/kernel_text.h"

namespace rondo {

const char* CudaProductPrelude() {
  return R"cuda(
// ---- an element's number and the coordinates that decide whether it exists; sums of what each loop adds
struct At { i64 a; int c0, c1, c2; };
DEV At operator+(At x, At y) { return {x.a + y.a, x.c0 + y.c0, x.c1 + y.c1, x.c2 + y.c2}; }

// ---- pieces of 16-bit products
DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// Copies while the thread goes on; zeros if absent.
template <int BYTES> DEV void copy_async(u32 to, const char* from, bool present) {
  const int size = present ? BYTES : 0;
  if (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(size) : "memory");
  }
}
DEV void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> DEV void wait_copies() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }
DEV void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// V floats (1, 2 or a multiple of 4) from the shared memory of each block of the cluster, added up. All are asked for
// before the first is waited for.
template <int CLUSTER, int V> DEV void sum_cluster(u32 address, float* out) {
  float x[CLUSTER][V];
  #pragma unroll
  for (int r = 0; r < CLUSTER; ++r) {
    u32 from;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(from) : "r"(address), "r"(r));
    if (V == 1) asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x[r][0]) : "r"(from));
    if (V == 2) asm volatile("ld.shared::cluster.v2.f32 {%0,%1}, [%2];" : "=f"(x[r][0]), "=f"(x[r][V - 1]) : "r"(from));
    #pragma unroll
    for (int v = 0; v + 3 < V; v += 4)
      asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(x[r][v]), "=f"(x[r][v + 1]), "=f"(x[r][v + 2]), "=f"(x[r][v + 3]) : "r"(from + 4 * v));
  }
  #pragma unroll
  for (int v = 0; v < V; ++v) {
    float sum = x[0][v];
    #pragma unroll
    for (int r = 1; r < CLUSTER; ++r) sum += x[r][v];
    out[v] = sum;
  }
}
// d += a (16 x 16) * b (16 x 8), accumulated in f32.
template <bool BF16> DEV void multiply(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  const u32 a[4] = {a0, a1, a2, a3};
  attention_multiply<BF16>(d, a, b0, b1);
}
DEV uint4 shared_16(u32 address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
  return v;
}
DEV uint2 shared_8(u32 address) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
  return v;
}
DEV void store_shared_16(u32 address, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
DEV u32 word(uint4 v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

// ---- sums of a tile of columns: partial[right side][warp][row][column] of every block of the cluster. The total of a
// block's warps goes behind them; each block finishes its share of the points.
template <int RIGHTS, int ROWS, int TILE, int WARPS, int CLUSTER, typename Finish>
DEV void finish_slices(float* partial, u32 rank, int column, int columns, Finish finish) {
  constexpr int POINTS = ROWS * TILE;
  float* total = partial + RIGHTS * WARPS * POINTS;
  __syncthreads();
  if (CLUSTER > 1) {
    for (int p = threadIdx.x; p < RIGHTS * POINTS; p += 256) {
      float sum = 0;
      #pragma unroll
      for (int w = 0; w < WARPS; ++w) sum += partial[(p / POINTS * WARPS + w) * POINTS + p % POINTS];
      total[p] = sum;
    }
    cluster_barrier();
  }
  for (int p = threadIdx.x * CLUSTER + rank; p < POINTS; p += 256 * CLUSTER) {
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
  if (CLUSTER > 1) cluster_barrier(); else __syncthreads();
}

)cuda";
}

}  // namespace rondo
