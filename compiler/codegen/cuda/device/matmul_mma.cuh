// Matmuls of 16-bit types by tiles, with mma.sync.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_MMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_MMA_CUH_

#include "compiler/codegen/cuda/device/matmul_tiles.cuh"
#include "compiler/codegen/cuda/device/mma.cuh"
#include "compiler/codegen/cuda/device/operand_tile.cuh"

// The Multiply of matmul_tiles by the warps of a block, warps_m x warps_n x warps_k.
template <TileMatmul T>
struct MmaTile {
  static constexpr TileMatmul MATMUL = T;
  static constexpr TileLayout LAYOUT = T.mma_layout();
  static constexpr int WARPS_M = T.warps_m, WARPS_N = T.warps_n, WARPS_K = T.warps_k, B_COUNT = T.b_count;
  static constexpr bool A_K_MAJOR = T.a_k_major, B_K_MAJOR = T.b_k_major, BF16 = T.bf16;
  static constexpr int PANELS = 1, STAGE = LAYOUT.stage(), B_BYTES = LAYOUT.b_bytes;
  static constexpr bool WHOLE = false;
  static constexpr bool RUNS_ON = false;
  using A = OperandTile<T.m, T.k, A_K_MAJOR, T.a_vector, BF16>;
  using B = OperandTile<T.n, T.k, B_K_MAJOR, T.b_vector, BF16>;
  static constexpr int WARP_M = T.m / WARPS_M, WARP_N = T.n / WARPS_N, MS = WARP_M / 16, NS = WARP_N / 8;
  static constexpr int SUBSTEPS = T.k / 16 / WARPS_K;

  u32 memory;
  int lane, warp_m, warp_n, warp_k;
  float acc[B_COUNT][MS][NS][4];

  MEMBER explicit MmaTile(u32 memory) : memory(memory) {
    const int warp = threadIdx.x >> 5;
    lane = threadIdx.x & 31;
    warp_m = warp % WARPS_M;
    warp_n = warp / WARPS_M % WARPS_N;
    warp_k = warp / (WARPS_M * WARPS_N);
#pragma unroll
    for (int x = 0; x < B_COUNT * MS * NS * 4; ++x) (&acc[0][0][0][0])[x] = 0;
  }

  MEMBER void multiply(int stage) {
    const u32 a_tile = memory + stage * STAGE, b_tiles = a_tile + A::BYTES;
#pragma unroll
    for (int sub = 0; sub < SUBSTEPS; ++sub) {
      const int k = (warp_k * SUBSTEPS + sub) * 16;
      u32 a[MS][4];
#pragma unroll
      for (int m = 0; m < MS; ++m) load_a(a[m], a_tile, warp_m * WARP_M + m * 16, k);
#pragma unroll
      for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
        for (int n = 0; n < NS; n += 2) {
          u32 b[4];
          load_b(b, b_tiles + j * B_BYTES, warp_n * WARP_N + n * 8, k);
#pragma unroll
          for (int m = 0; m < MS; ++m) {
            mma<BF16>(acc[j][m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
            mma<BF16>(acc[j][m][n + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
          }
        }
    }
  }
  // The fragments of 16 rows, or columns, from k on.
  MEMBER void load_a(u32* a, u32 tile, int row, int k) const {
    if (A_K_MAJOR)
      ldmatrix(a, tile + swizzled<A::LINE>(row + (lane & 15), k / 8 + (lane >> 4)));
    else
      ldmatrix_transposed(
          a, tile + swizzled<A::LINE>(k + (lane & 7) + (lane >> 4) * 8, row / 8 + (lane >> 3 & 1)));
  }
  MEMBER void load_b(u32* b, u32 tile, int column, int k) const {
    if (B_K_MAJOR)
      ldmatrix(b, tile + swizzled<B::LINE>(column + (lane & 7) + (lane >> 4) * 8, k / 8 + (lane >> 3 & 1)));
    else
      ldmatrix_transposed(b, tile + swizzled<B::LINE>(k + (lane & 15), column / 8 + (lane >> 4)));
  }

  MEMBER void wait() {}
  // Warps that split K one after another.
  MEMBER void store(float* accumulators) const {
#pragma unroll
    for (int w = 0; w < WARPS_K; ++w) {
      if (warp_k == w) {
#pragma unroll
        for (int j = 0; j < B_COUNT; ++j)
          store_fragments<T.n, MS, NS>(accumulators + j * T.m * AccumulatorsPitch(T.n), warp_m * WARP_M,
                                       warp_n * WARP_N, acc[j], w > 0);
      }
      __syncthreads();
    }
  }
};

// The arguments are those of matmul_tiles.
template <TileMatmul MATMUL, typename... Arguments>
DEV void matmul_mma(Arguments... arguments) {
  matmul_tiles<MmaTile<MATMUL>>(arguments...);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_MMA_CUH_
