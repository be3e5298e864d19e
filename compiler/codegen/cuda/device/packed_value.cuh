// One number of packed weights (core/packed_weights.h), for what need not be quick.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_VALUE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_VALUE_CUH_

#include "compiler/codegen/cuda/device/packed_codes.cuh"

// Element i of DTYPE (rondo::DType: 0 f32, 1 f16, 2 bf16).
template <int DTYPE>
DEV float packed_scale(const char* from, i64 i) {
  if (DTYPE == 0) return ((const float*)from)[i];
  const u32 half = ((const unsigned short*)from)[i];
  if (DTYPE == 2) return bits_float(half << 16);
  float f;
  asm("{.reg .b16 h, l; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(f) : "r"(half));
  return f;
}

template <int TYPE, int BITS>
DEV float packed_number(u32 code) {
  if (TYPE <= kPackedU8) return (float)code;
  constexpr int MANTISSA = TYPE == kPackedE4M3 ? 3 : TYPE == kPackedE5M2 ? 2 : 1;
  constexpr int BIAS = TYPE == kPackedE4M3 ? 7 : TYPE == kPackedE5M2 ? 15 : 1;
  // Exponent and mantissa moved to those of f32, and a power of two for the other bias.
  const u32 rest = code & ((1u << (BITS - 1)) - 1);
  const float value = bits_float(rest << (23 - MANTISSA)) * bits_float((u32)(254 - BIAS) << 23);
  return (code >> (BITS - 1)) != 0 ? -value : value;
}

template <int TYPE, int BITS, int SCALE>
DEV float packed_value(const char* codes, const char* scales, const char* zeros, int zero, i64 n, i64 k,
                       i64 pieces, i64 blocks, i64 block) {
  constexpr int PIECE = 256 / BITS, WORD = 128 / BITS;
  const int in = (int)(k % PIECE), lane = (int)(n % 8) * 4 + (int)(k % 8) / 2;
  const i64 word =
      (((n / 16 * pieces + k / PIECE) * 32 + lane) * 16 + in / WORD * 8 + (int)(n % 16) / 8 * 4) / 4;
  const int bit = BITS * (in % WORD / 16 * 2 + (int)(k % 16) / 8) + (int)(k % 2) * 16;
  const u32 code = ((const u32*)codes)[word] >> bit & ((1u << BITS) - 1);
  const i64 at = (n / 16 * blocks + k / block) * 16 + n % 8 * 2 + n % 16 / 8;
  const float offset = zeros == nullptr ? (float)zero : packed_scale<SCALE>(zeros, at);
  return (packed_number<TYPE, BITS>(code) - offset) * packed_scale<SCALE>(scales, at);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_PACKED_VALUE_CUH_
