// Matmuls of 16-bit types by tiles, with mma.sync.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_MMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_MMA_CUH_

#include "compiler/codegen/cuda/device/matmul_tiles.cuh"
#include "compiler/codegen/cuda/device/mma.cuh"
#include "compiler/codegen/cuda/device/mma_warps.cuh"
#include "compiler/codegen/cuda/device/operand_tile.cuh"

// The Multiply of matmul_tiles.
template <TileMatmul T>
struct MmaTile : MmaWarps<T, 16, float, T.mma_layout()> {
  using Warps = MmaWarps<T, 16, float, T.mma_layout()>;
  using Warps::acc, Warps::lane, Warps::memory, Warps::warp_k, Warps::warp_m, Warps::warp_n, Warps::MS,
      Warps::NS, Warps::SUBSTEPS, Warps::WARP_M, Warps::WARP_N;
  static constexpr bool A_K_MAJOR = T.a_k_major, B_K_MAJOR = T.b_k_major, BF16 = T.bf16, WHOLE = false;
  using A = OperandTile<T.m, T.k, A_K_MAJOR, T.a_vector, BF16>;
  using B = OperandTile<T.n, T.k, B_K_MAJOR, T.b_vector, BF16>;
  using Warps::Warps;

  MEMBER void multiply(int stage) {
    const u32 a_tile = memory + stage * Warps::STAGE, b_tiles = a_tile + A::BYTES;
#pragma unroll
    for (int sub = 0; sub < SUBSTEPS; ++sub) {
      const int k = (warp_k * SUBSTEPS + sub) * 16;
      u32 a[MS][4];
#pragma unroll
      for (int m = 0; m < MS; ++m) load_a(a[m], a_tile, warp_m * WARP_M + m * 16, k);
#pragma unroll
      for (int j = 0; j < Warps::B_COUNT; ++j)
#pragma unroll
        for (int n = 0; n < NS; n += 2) {
          u32 b[4];
          load_b(b, b_tiles + j * Warps::B_BYTES, warp_n * WARP_N + n * 8, k);
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
};

// The arguments are those of matmul_tiles.
template <TileMatmul MATMUL, typename... Arguments>
DEV void matmul_mma(Arguments... arguments) {
  matmul_tiles<MmaTile<MATMUL>>(arguments...);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_MMA_CUH_
