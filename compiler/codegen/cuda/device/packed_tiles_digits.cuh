// What PackedTilesRows multiplies: A as two digits of 8 bits (digits.cuh), the columns 2 m and 2 m + 1 of
// wgmma on bytes, by codes of 4 and 8 bits. Of 4 bits they are bytes after a mask, of 8 as they lie; an
// instruction takes as long as one of 16 bits, and has twice as much of K.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_DIGITS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_DIGITS_CUH_

#include "compiler/codegen/cuda/device/packed_tiles_digit_copies.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_unpack.cuh"
#include "compiler/codegen/cuda/device/wgmma_bytes.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <PackedTiles MATMUL>
struct PackedTilesDigits {
  typedef PackedTilesUnpack<MATMUL> Unpack;
  typedef PackedTilesTerms<MATMUL> Terms;
  static constexpr int M = MATMUL.m, ROWS = M / 4;  // of a thread
  static constexpr bool BY_COLUMN = MATMUL.by_column(), ZEROS = MATMUL.format.zeros;
  // 16s of K of a piece: two units of 32 that instructions take, or a block of one.
  static constexpr int AT_ONCE = Unpack::SHARE < 4 ? 2 : 4, UNITS = AT_ONCE / 2;
  static constexpr bool WHOLE_STAGE = MATMUL.digit_blocks() == 1, HALVES_FIRST = !WHOLE_STAGE;
  static constexpr int BLOCKS = Unpack::BLOCKS;  // of half a stage

  // Of the accumulators of a tile: rows 4 j + t, columns g and g + 8.
  DEV int first_row(int lane) { return lane & 3; }
  DEV constexpr int row_of(int e) { return e / 2 * 4; }
  DEV constexpr int upper(int e) { return e & 1; }

  u32 fragments[2][UNITS][4];                           // of the pieces that are under way
  int sums[2][M];                                       // of the blocks: wgmma's
  float scale[2][2], zero[2][2];                        // of the columns g and g + 8
  float unit[2][BLOCKS][ROWS], shift[2][BLOCKS][ROWS];  // terms of a half

  template <typename P>
  MEMBER void begin(u32 from, const Unpack& unpack, float*, const float* column_zeros) {
    if constexpr (P::FIRST == 0 && P::TILE == 0 && !(WHOLE_STAGE && P::HALF == 1)) load_terms<P::HALF>(from);
    if constexpr (P::BEGINS) {
      if constexpr (!BY_COLUMN) unpack.widen_scales(unpack.scales[P::BLOCK], scale[P::SUMS_TURN]);
      if constexpr (ZEROS && BY_COLUMN)
        zero[P::SUMS_TURN][0] = column_zeros[0], zero[P::SUMS_TURN][1] = column_zeros[1];
      else if constexpr (ZEROS)
        unpack.widen_scales(unpack.zeros[P::BLOCK], zero[P::SUMS_TURN]);
    }
#pragma unroll
    for (int i = 0; i < UNITS; ++i) {
      const u32* const words = unpack.words + (P::FIRST / 2 + i) * (Terms::NIBBLES ? 2 : 4);
      u32* const codes = fragments[P::TURN][i];
      if constexpr (Terms::NIBBLES)
        nibble_bytes(words[0], words[1], codes);
      else
        codes[0] = words[0], codes[1] = words[1], codes[2] = words[2], codes[3] = words[3];
    }
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < UNITS; ++i) {
      const u64 a = wgmma_descriptor(from + P::HALF * 64 + (P::FIRST / 2 + i) * 32, 0);
      constexpr WgmmaBytes TYPE = Terms::NIBBLES ? kWgmmaS8 : kWgmmaU8;
      if (P::BEGINS && i == 0)
        wgmma_bytes<2 * M, TYPE, false>(sums[P::SUMS_TURN], fragments[P::TURN][i], a);
      else
        wgmma_bytes<2 * M, TYPE, true>(sums[P::SUMS_TURN], fragments[P::TURN][i], a);
    }
    wgmma_commit();
  }
  // Of a complete piece; a block that ends with it is scaled.
  template <typename P>
  MEMBER void finish(float* acc) {
    if constexpr (P::ENDS) {
      constexpr int TURN = P::SUMS_TURN, HALF = WHOLE_STAGE ? 0 : P::HALF, BLOCK = P::BLOCK;
      int* const own = sums[TURN];
#pragma unroll
      for (int i = 0; i < M; ++i) asm volatile("" : "+r"(own[i])::"memory");  // not read before the wait
#pragma unroll
      for (int e = 0; e < 2 * ROWS; ++e) {
        float sum = (float)(own[2 * e] * 256 + own[2 * e + 1]);
        if constexpr (ZEROS)
          sum = __fmaf_rn(zero[TURN][upper(e)] - Terms::OFFSET, shift[HALF][BLOCK][e / 2], sum);
        else if constexpr (Terms::CORRECTED)
          sum += shift[HALF][BLOCK][e / 2];
        const float factor = unit[HALF][BLOCK][e / 2];
        acc[e] = __fmaf_rn(BY_COLUMN ? factor : factor * scale[TURN][upper(e)], sum, acc[e]);
      }
    }
  }

 private:
  template <int HALF>
  MEMBER void load_terms(u32 from) {
#pragma unroll
    for (int j = 0; j < ROWS; ++j)
#pragma unroll
      for (int b = 0; b < BLOCKS; ++b) {
        const uint2 term = shared_8(from + Terms::at(4 * j + (int)(threadIdx.x & 3), HALF * BLOCKS + b));
        unit[HALF][b][j] = bits_float(term.x);
        shift[HALF][b][j] = bits_float(term.y);
      }
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_DIGITS_CUH_
