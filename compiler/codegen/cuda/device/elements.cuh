// Single elements of each dtype in memory: ld_DTYPE and st_DTYPE, by element number from `p` on. Loads widen
// (16-bit floats to float, integers to i64; u64 keeps its bits), stores narrow: floats round to nearest even,
// integers keep their low bits.
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
DEV i64 ld_bool(const char* p, i64 i) { return ((const unsigned char*)p)[i]; }
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

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_ELEMENTS_CUH_
