// Matmuls of f32 by tiles whose factors are rounded to tf32, on tensor cores.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TF32_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TF32_CUH_

#include "compiler/codegen/cuda/device/float_operand_tile.cuh"
#include "compiler/codegen/cuda/device/matmul_tiles.cuh"

DEV u32 to_tf32(float x) {
  u32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
// d (16 x 8) += a (16 x 8) * b (8 x 8)
DEV void mma_tf32(float* d, const u32* a, u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The Multiply of matmul_tiles by the warps of a block, warps_m x warps_n.
template <TileMatmul T>
struct Tf32Tile {
  static constexpr TileMatmul MATMUL = T;
  static constexpr TileLayout LAYOUT = T.float_layout();
  static constexpr int WARPS_M = T.warps_m, WARPS_N = T.warps_n, B_COUNT = T.b_count;
  static constexpr bool A_K_MAJOR = T.a_k_major, B_K_MAJOR = T.b_k_major;
  static constexpr int PANELS = 1, STAGE = LAYOUT.stage(), B_BYTES = LAYOUT.b_bytes;
  static constexpr bool WHOLE = false;
  static constexpr bool RUNS_ON = false;
  using A = FloatOperandTile<T.m, kFloatTileK, A_K_MAJOR, T.a_vector>;
  using B = FloatOperandTile<T.n, kFloatTileK, B_K_MAJOR, T.b_vector>;
  static constexpr int WARP_M = T.m / WARPS_M, WARP_N = T.n / WARPS_N, MS = WARP_M / 16, NS = WARP_N / 8;

  int g, t, warp_m, warp_n;  // this thread's row and pair of columns in a fragment
  float acc[B_COUNT][MS][NS][4];

  MEMBER explicit Tf32Tile(u32) {
    const int warp = threadIdx.x >> 5;
    g = (threadIdx.x & 31) >> 2;
    t = threadIdx.x & 3;
    warp_m = warp % WARPS_M;
    warp_n = warp / WARPS_M;
#pragma unroll
    for (int x = 0; x < B_COUNT * MS * NS * 4; ++x) (&acc[0][0][0][0])[x] = 0;
  }

  MEMBER void multiply(int stage) {
    const float* a_tile = (const float*)(shared_memory + stage * STAGE);
#pragma unroll
    for (int k = 0; k < kFloatTileK; k += 8) {
      u32 a[MS][4];
#pragma unroll
      for (int m = 0; m < MS; ++m) {
        const int r = warp_m * WARP_M + m * 16 + g;
        a[m][0] = element<A, A_K_MAJOR>(a_tile, r, k + t);
        a[m][1] = element<A, A_K_MAJOR>(a_tile, r + 8, k + t);
        a[m][2] = element<A, A_K_MAJOR>(a_tile, r, k + t + 4);
        a[m][3] = element<A, A_K_MAJOR>(a_tile, r + 8, k + t + 4);
      }
#pragma unroll
      for (int j = 0; j < B_COUNT; ++j) {
        const float* b_tile = a_tile + (A::BYTES + j * B_BYTES) / 4;
#pragma unroll
        for (int n = 0; n < NS; ++n) {
          const int c = warp_n * WARP_N + n * 8 + g;
          const u32 b0 = element<B, B_K_MAJOR>(b_tile, c, k + t),
                    b1 = element<B, B_K_MAJOR>(b_tile, c, k + t + 4);
#pragma unroll
          for (int m = 0; m < MS; ++m) mma_tf32(acc[j][m][n], a[m], b0, b1);
        }
      }
    }
  }
  template <typename Operand, bool K_MAJOR>
  MEMBER static u32 element(const float* tile, int mn, int k) {
    return to_tf32(tile[K_MAJOR ? mn * Operand::PITCH + k : k * Operand::PITCH + mn]);
  }

  MEMBER void wait() {}
  MEMBER void store(float* accumulators) const {
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j)
      store_fragments<T.n, MS, NS>(accumulators + j * T.m * AccumulatorsPitch(T.n), warp_m * WARP_M,
                                   warp_n * WARP_N, acc[j], false);
    __syncthreads();
  }
};

// The arguments are those of matmul_tiles.
template <TileMatmul MATMUL, typename... Arguments>
DEV void matmul_tf32(Arguments... arguments) {
  matmul_tiles<Tf32Tile<MATMUL>>(arguments...);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TF32_CUH_
