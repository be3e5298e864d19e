// Single elements of each dtype in memory: ld_DTYPE and st_DTYPE, by element number from `p` on. Loads widen
// (narrower floats to float, integers to i64; u64 keeps its bits), stores narrow: floats round to nearest
// even, integers keep their low bits.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ELEMENTS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ELEMENTS_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

DEV float half_float(unsigned short h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}
DEV unsigned short float_half(float f) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
DEV float bf16_float(unsigned short h) { return bits_float((u32)h << 16); }
DEV unsigned short float_bf16(float f) {
  unsigned short h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

// FP8, MANTISSA bits of it 3 (E4M3) or 2 (E5M2), two numbers at once: as f16, which holds all of them, and
// from floats, rounded to nearest even. What is too large becomes the greatest number; E5M2 keeps infinities.
// What no instruction does is done as core/dtype.h has it.
template <int MANTISSA>
DEV u32 fp8_halves(unsigned short pair) {
  u32 halves;
#if __CUDA_ARCH__ >= 890
  if (MANTISSA == 3)
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
  else
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(pair));
#else
  halves = 0;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const u32 code = pair >> 8 * e & 255u, rest = code & 0x7fu;
    // E4M3's exponents count from 8 less than f16's.
    u32 half = MANTISSA == 2 ? rest << 8 : float_half(half_float((unsigned short)(rest << 7)) * 256.0f);
    if (MANTISSA == 3 && rest == 0x7fu) half = 0x7fffu;
    halves |= (half | (code & 0x80u) << 8) << 16 * e;
  }
#endif
  return halves;
}
template <int MANTISSA>
DEV u32 float_fp8_bits(float f) {
  const u32 BIAS = MANTISSA == 3 ? 120u : 112u, GREATEST = MANTISSA == 3 ? 0x7eu : 0x7bu;
  const u32 u = __float_as_uint(f), size = u & 0x7fffffffu, sign = u >> 24 & 0x80u;
  const int SHIFT = 23 - MANTISSA;
  const u32 normal = ((size + (1u << (SHIFT - 1)) - 1 + (size >> SHIFT & 1u)) >> SHIFT) - (BIAS << MANTISSA);
  const float magnitude = MANTISSA == 3 ? 16384.0f : 128.0f;  // which counts in units of the least number
  const u32 small = __float_as_uint(bits_float(size) + magnitude) - __float_as_uint(magnitude);
  u32 code = size < (BIAS + 1) << 23 ? small : normal;
  code = code > GREATEST ? GREATEST : code;
  return size > 0x7f800000u ? 0x7fu : code | sign;
}
template <int MANTISSA>
DEV unsigned short floats_fp8(float low, float high) {
  unsigned short pair;
#if __CUDA_ARCH__ >= 890
  if (MANTISSA == 3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
#else
  pair = (unsigned short)(float_fp8_bits<MANTISSA>(low) | float_fp8_bits<MANTISSA>(high) << 8);
#endif
  if (MANTISSA == 2) {
    const u32 INFINITE = 0x7f800000u;
    if ((__float_as_uint(low) & 0x7fffffffu) == INFINITE) pair = (unsigned short)((pair & 0xff80u) | 0x7cu);
    if ((__float_as_uint(high) & 0x7fffffffu) == INFINITE)
      pair = (unsigned short)((pair & 0x80ffu) | 0x7c00u);
  }
  return pair;
}
template <int MANTISSA>
DEV float fp8_float(unsigned char code) {
  return half_float((unsigned short)fp8_halves<MANTISSA>(code));
}
template <int MANTISSA>
DEV unsigned char float_fp8(float f) {
  return (unsigned char)floats_fp8<MANTISSA>(f, 0.0f);
}

DEV float ld_f32(const char* p, i64 i) { return ((const float*)p)[i]; }
DEV float ld_f16(const char* p, i64 i) { return half_float(((const unsigned short*)p)[i]); }
DEV float ld_bf16(const char* p, i64 i) { return bf16_float(((const unsigned short*)p)[i]); }
DEV double ld_f64(const char* p, i64 i) { return ((const double*)p)[i]; }
DEV i64 ld_i64(const char* p, i64 i) { return ((const i64*)p)[i]; }
DEV i64 ld_i32(const char* p, i64 i) { return ((const int*)p)[i]; }
DEV i64 ld_i16(const char* p, i64 i) { return ((const short*)p)[i]; }
DEV i64 ld_i8(const char* p, i64 i) { return ((const signed char*)p)[i]; }
DEV i64 ld_u8(const char* p, i64 i) { return ((const unsigned char*)p)[i]; }
DEV i64 ld_u16(const char* p, i64 i) { return ((const unsigned short*)p)[i]; }
DEV i64 ld_u32(const char* p, i64 i) { return ((const u32*)p)[i]; }
DEV i64 ld_u64(const char* p, i64 i) { return ((const i64*)p)[i]; }
DEV i64 ld_bool(const char* p, i64 i) { return ((const unsigned char*)p)[i] != 0; }  // any other byte is true
DEV float ld_e4m3(const char* p, i64 i) { return fp8_float<3>(((const unsigned char*)p)[i]); }
DEV float ld_e5m2(const char* p, i64 i) { return fp8_float<2>(((const unsigned char*)p)[i]); }
DEV void st_f32(char* p, i64 i, float v) { ((float*)p)[i] = v; }
DEV void st_f16(char* p, i64 i, float v) { ((unsigned short*)p)[i] = float_half(v); }
DEV void st_bf16(char* p, i64 i, float v) { ((unsigned short*)p)[i] = float_bf16(v); }
DEV void st_f64(char* p, i64 i, double v) { ((double*)p)[i] = v; }
DEV void st_i64(char* p, i64 i, i64 v) { ((i64*)p)[i] = v; }
DEV void st_i32(char* p, i64 i, i64 v) { ((int*)p)[i] = (int)v; }
DEV void st_i16(char* p, i64 i, i64 v) { ((short*)p)[i] = (short)v; }
DEV void st_i8(char* p, i64 i, i64 v) { ((signed char*)p)[i] = (signed char)v; }
DEV void st_u8(char* p, i64 i, i64 v) { ((unsigned char*)p)[i] = (unsigned char)v; }
DEV void st_u16(char* p, i64 i, i64 v) { ((unsigned short*)p)[i] = (unsigned short)v; }
DEV void st_u32(char* p, i64 i, i64 v) { ((u32*)p)[i] = (u32)v; }
DEV void st_u64(char* p, i64 i, i64 v) { ((i64*)p)[i] = v; }
DEV void st_bool(char* p, i64 i, i64 v) { ((unsigned char*)p)[i] = v != 0; }
DEV void st_e4m3(char* p, i64 i, float v) { ((unsigned char*)p)[i] = float_fp8<3>(v); }
DEV void st_e5m2(char* p, i64 i, float v) { ((unsigned char*)p)[i] = float_fp8<2>(v); }

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ELEMENTS_CUH_
