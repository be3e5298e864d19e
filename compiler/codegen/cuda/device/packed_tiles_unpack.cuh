// A warp's part of a tile of packed weights (core/packed_weights.h): 16 columns, read from a stage of shared
// memory as codes and scales, and made fragments of 16 of K that tensor cores take from registers.
//
// (code - zero) is exact. Of many rows, times its block's scale it is rounded once to f16 or bf16; of few
// rows (packed_tiles_rows.cuh), and a scale a column, scales are left to the sums: nothing is rounded then.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_UNPACK_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_UNPACK_CUH_

#include "compiler/codegen/cuda/device/packed_tiles_layout.h"
#include "compiler/codegen/cuda/device/packed_value.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"

template <bool BF16>
DEV u32 multiply_pair(u32 a, u32 b) {
  u32 d;
  if (BF16)
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  else
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}
// The two elements of a pair.
template <bool BF16>
DEV void widen_pair(u32 pair, float* low, float* high) {
  if (BF16) {
    *low = bits_float(pair << 16);
    *high = bits_float(pair & 0xffff0000u);
  } else {
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(*low), "=f"(*high)
        : "r"(pair));
  }
}

template <PackedTiles MATMUL>
struct PackedTilesUnpack {
  static constexpr bool BF16 = MATMUL.format.bf16;
  static constexpr int BITS = MATMUL.format.bits, HALF_K = MATMUL.half_k(), SLICES = HALF_K / 16;
  static constexpr int SCALE_BYTES = MATMUL.format.scale_bytes,
                       SCALE_TYPE = SCALE_BYTES == 4 ? 0 : 1 + MATMUL.format.scale_bf16;
  static constexpr bool BY_COLUMN = MATMUL.by_column();
  // Scales of the type that is multiplied are a pair of it each; others multiply in f32.
  static constexpr bool AS_PAIRS = SCALE_BYTES == 2 && (bool)MATMUL.format.scale_bf16 == BF16;
  // Of half a stage: pairs of words, which are those of columns g and g + 8; blocks, and their 16s of K.
  static constexpr int PAIRS = SLICES * BITS / 8,
                       BLOCKS = MATMUL.format.block < HALF_K ? HALF_K / MATMUL.format.block : 1,
                       SHARE = SLICES / BLOCKS;
  static constexpr int WORD = 8 / BITS;  // 16s of K of a word
  typedef PackedCodes<MATMUL.format, false> Codes;

  u32 words[2 * PAIRS], scales[BLOCKS][SCALE_BYTES / 2], zeros[BLOCKS][SCALE_BYTES / 2];
  float column_zeros[2];  // with a scale a column

  // Of half HALF of a stage, whose shared address it is; `tile`: the warp's number.
  template <int HALF>
  MEMBER void load(u32 stage, int tile) {
    const int lane = threadIdx.x & 31;
    const u32 codes = stage + MATMUL.tile_at(tile) + lane * 16;
#pragma unroll
    for (int p = 0; p < PAIRS; p += 2) {
      if constexpr (PAIRS >= 2) {
        const uint4 w = shared_16(codes + MATMUL.pair_at(HALF, p));
        words[2 * p] = w.x, words[2 * p + 1] = w.y, words[2 * p + 2] = w.z, words[2 * p + 3] = w.w;
      } else {
        const uint2 w = shared_8(codes + MATMUL.pair_at(HALF, p));
        words[0] = w.x, words[1] = w.y;
      }
    }
    if constexpr (!BY_COLUMN) {
      const u32 own = stage + MATMUL.scales_at(tile) + (lane >> 2) * 2 * SCALE_BYTES;
#pragma unroll
      for (int b = 0; b < BLOCKS; ++b) {
        load_scales(own + MATMUL.block_at(HALF, b), scales[b]);
        if (MATMUL.format.zeros)
          load_scales(own + MATMUL.zeros_box(0) - MATMUL.scales_box(0) + MATMUL.block_at(HALF, b), zeros[b]);
      }
    }
  }
  // fragments[s]: of the half's 16s of K.
  MEMBER void unpack(u32 (*fragments)[4]) const {
    float zero[2] = {(float)MATMUL.format.zero, (float)MATMUL.format.zero}, scale[2];
    u32 bias[2], factor[2];
#pragma unroll
    for (int s = 0; s < SLICES; ++s) {
      if (s % SHARE == 0) {
        const int b = s / SHARE;
        if (MATMUL.format.zeros) {
          if constexpr (BY_COLUMN)
            zero[0] = column_zeros[0], zero[1] = column_zeros[1];
          else
            widen_scales(zeros[b], zero);
        }
        bias[0] = Codes::bias(zero[0]);
        bias[1] = Codes::bias(zero[1]);
        if constexpr (!BY_COLUMN && AS_PAIRS) {
          factor[0] = __byte_perm(scales[b][0], 0, 0x1010);
          factor[1] = __byte_perm(scales[b][0], 0, 0x3232);
        } else if constexpr (!BY_COLUMN) {
          widen_scales(scales[b], scale);
        }
      }
      const u32 low = words[s / WORD * 2], high = words[s / WORD * 2 + 1];
      const int i = s % WORD * 2;
#pragma unroll
      for (int f = 0; f < 4; ++f) {
        const int column = f & 1;  // g, or g + 8
        u32 x = Codes::pair(column == 0 ? low : high, i + f / 2, bias[column]);
        if constexpr (!BY_COLUMN && AS_PAIRS) {
          x = multiply_pair<BF16>(x, factor[column]);
        } else if constexpr (!BY_COLUMN) {
          float first, second;
          widen_pair<BF16>(x, &first, &second);
          x = pack_pair<BF16>(first * scale[column], second * scale[column]);
        }
        fragments[s][f] = x;
      }
    }
  }
  MEMBER void widen_scales(const u32* from, float* out) const {
    if constexpr (SCALE_BYTES == 4)
      out[0] = bits_float(from[0]), out[1] = bits_float(from[1]);
    else
      widen_pair<SCALE_TYPE == 2>(from[0], out, out + 1);
  }

 private:
  // Of columns g and g + 8.
  MEMBER void load_scales(u32 at, u32* out) const {
    if constexpr (SCALE_BYTES == 4) {
      const uint2 x = shared_8(at);
      out[0] = x.x, out[1] = x.y;
    } else {
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(out[0]) : "r"(at) : "memory");
    }
  }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_TILES_UNPACK_CUH_
