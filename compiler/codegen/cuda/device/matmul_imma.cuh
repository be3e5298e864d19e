// Matmuls of bytes by tiles, with mma.sync: of 8-bit integers, with exact sums in 32 bits (modulo 2^32), and
// of FP8, with sums in f32.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_IMMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_IMMA_CUH_

#include "compiler/codegen/cuda/device/byte_matmul.cuh"
#include "compiler/codegen/cuda/device/byte_operand_tile.cuh"
#include "compiler/codegen/cuda/device/matmul_tiles.cuh"
#include "compiler/codegen/cuda/device/mma_warps.cuh"

// The Multiply of matmul_tiles. ABSENT: the byte of A where it is padded.
template <TileMatmul T, typename BYTES, int ABSENT>
struct ImmaTile : MmaWarps<T, 32, typename BYTES::Sum, T.byte_layout()> {
  using Sum = typename BYTES::Sum;
  using Warps = MmaWarps<T, 32, Sum, T.byte_layout()>;
  using Warps::acc, Warps::lane, Warps::memory, Warps::warp_k, Warps::warp_m, Warps::warp_n, Warps::MS,
      Warps::NS, Warps::SUBSTEPS, Warps::WARP_M, Warps::WARP_N;
  static constexpr bool WHOLE = BYTES::WHOLE;
  using A = ByteOperandTile<T.m, T.k, T.a_vector, ABSENT>;
  using B = ByteOperandTile<T.n, T.k, T.b_vector, 0>;
  using Warps::Warps;
  // What rows of A sum to, in every column (of integers): the warps of the first columns add it up.
  static constexpr bool SUMS = T.sums != 0;
  static constexpr u32 ONES = 0x01010101u;
  Sum sums[SUMS ? MS : 1][4] = {};

  MEMBER void multiply(int stage) {
    const u32 a_tile = memory + stage * Warps::STAGE, b_tiles = a_tile + A::BYTES;
#pragma unroll
    for (int sub = 0; sub < SUBSTEPS; ++sub) {
      const int piece = (warp_k * SUBSTEPS + sub) * 2;
      u32 a[MS][4];
#pragma unroll
      for (int m = 0; m < MS; ++m)
        ldmatrix(a[m],
                 a_tile + swizzled<A::LINE>(warp_m * WARP_M + m * 16 + (lane & 15), piece + (lane >> 4)));
      if (SUMS && warp_n == 0) {
#pragma unroll
        for (int m = 0; m < MS; ++m) BYTES::multiply(sums[SUMS ? m : 0], a[m], ONES, ONES);
      }
#pragma unroll
      for (int j = 0; j < Warps::B_COUNT; ++j)
#pragma unroll
        for (int n = 0; n < NS; n += 2) {
          u32 b[4];
          ldmatrix(b, b_tiles + j * Warps::B_BYTES +
                          swizzled<B::LINE>(warp_n * WARP_N + n * 8 + (lane & 7) + (lane >> 4) * 8,
                                            piece + (lane >> 3 & 1)));
#pragma unroll
          for (int m = 0; m < MS; ++m) {
            BYTES::multiply(acc[j][m][n], a[m], b[0], b[1]);
            BYTES::multiply(acc[j][m][n + 1], a[m], b[2], b[3]);
          }
        }
    }
  }

  // As MmaWarps, and the rows' sums beside those of the first B.
  MEMBER void store(float* accumulators) const {
    if constexpr (SUMS && Warps::COPIES > 1) {
      store_sums(accumulators + warp_k * Warps::COPY, false);
    } else if constexpr (SUMS) {
#pragma unroll
      for (int w = 0; w < T.warps_k; ++w) {
        if (warp_k == w) store_sums(accumulators, w > 0);
        __syncthreads();
      }
    }
    Warps::store(accumulators);
  }
  MEMBER void store_sums(float* accumulators, bool add) const {
    if (warp_n != 0 || (lane & 3) != 0) return;
#pragma unroll
    for (int m = 0; m < MS; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = warp_m * WARP_M + m * 16 + (lane >> 2) + 8 * h;
        int* to = (int*)accumulators + row * AccumulatorsPitch(T.n) + T.n;
        *to = sums[SUMS ? m : 0][2 * h] + (add ? *to : 0);
      }
  }
};

// The arguments are those of matmul_tiles.
template <TileMatmul MATMUL, typename BYTES, int ABSENT, typename... Arguments>
DEV void matmul_imma(Arguments... arguments) {
  matmul_tiles<ImmaTile<MATMUL, BYTES, ABSENT>>(arguments...);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_IMMA_CUH_
