// What PackedTilesRows multiplies: A in 16 bits, by pairs of numbers that codes are made.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_PAIRS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_PAIRS_CUH_

#include "compiler/codegen/cuda/device/packed_tiles_unpack.cuh"
#include "compiler/codegen/cuda/device/wgmma_registers.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <PackedTiles MATMUL>
struct PackedTilesPairs {
  typedef PackedTilesUnpack<MATMUL> Unpack;
  typedef PackedCodes<MATMUL.format, false> Codes;
  static constexpr int M = MATMUL.m, SUMS = M / 2, SLICES = Unpack::SLICES;
  static constexpr bool BY_COLUMN = MATMUL.by_column(), BF16 = MATMUL.format.bf16,
                        ZEROS = MATMUL.format.zeros;
  static constexpr int AT_ONCE = Unpack::SHARE < 2 ? Unpack::SHARE : 2;
  static constexpr bool WHOLE_STAGE = MATMUL.stage_blocks() == 1, HALVES_FIRST = false;

  // Of the accumulators of a tile, which are those of wgmma.
  DEV int first_row(int lane) { return (lane & 3) * 2; }
  DEV constexpr int row_of(int e) { return e / 4 * 8 + (e & 1); }
  DEV constexpr int upper(int e) { return e >> 1 & 1; }  // column g + 8, else g

  u32 fragments[2][AT_ONCE][4];      // of the pieces that are under way
  float sums[2][SUMS], scale[2][2];  // of the blocks

  template <typename P>
  MEMBER void begin(u32 from, const Unpack& unpack, float* acc, const float* column_zeros) {
    u32 bias[2];
    bias_of(unpack, P::BLOCK, column_zeros, bias);
    if constexpr (!BY_COLUMN && P::BEGINS) unpack.widen_scales(unpack.scales[P::BLOCK], scale[P::SUMS_TURN]);
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int slice = P::FIRST + i;
        fragments[P::TURN][i][e] = Codes::pair(unpack.words[slice / Unpack::WORD * 2 + (e & 1)],
                                               slice % Unpack::WORD * 2 + e / 2, bias[e & 1]);
      }
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int slice = P::HALF * SLICES + P::FIRST + i;
      const u64 a = wgmma_descriptor(from + slice / 4 * (M * 128) + slice % 4 * 32, 0);
      const u32* const codes = fragments[P::TURN][i];
      if constexpr (BY_COLUMN)
        wgmma_registers<M, BF16>(acc, codes, a);
      else if (P::BEGINS && i == 0)
        wgmma_registers<M, BF16, false>(sums[P::SUMS_TURN], codes, a);
      else
        wgmma_registers<M, BF16>(sums[P::SUMS_TURN], codes, a);
    }
    wgmma_commit();
  }
  // Of a complete piece; a block that ends with it is scaled.
  template <typename P>
  MEMBER void finish(float* acc) {
    if constexpr (!BY_COLUMN && P::ENDS) {
#pragma unroll
      for (int e = 0; e < SUMS; ++e) {
        float& sum = sums[P::SUMS_TURN][e];
        asm volatile("" : "+f"(sum)::"memory");  // not to be read before the wait
        acc[e] = __fmaf_rn(scale[P::SUMS_TURN][upper(e)], sum, acc[e]);
      }
    }
  }

 private:
  // What is added to the pairs of codes of a block, for the columns g and g + 8.
  MEMBER void bias_of(const Unpack& unpack, int block, const float* column_zeros, u32* bias) const {
    float zero[2] = {(float)MATMUL.format.zero, (float)MATMUL.format.zero};
    if constexpr (ZEROS && BY_COLUMN)
      zero[0] = column_zeros[0], zero[1] = column_zeros[1];
    else if constexpr (ZEROS)
      unpack.widen_scales(unpack.zeros[block], zero);
    bias[0] = Codes::bias(zero[0]);
    bias[1] = Codes::bias(zero[1]);
  }
};

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_PAIRS_CUH_
