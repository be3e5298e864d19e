// Neighbouring elements at once, through arrays of 32-bit words: N of them moved by accesses of up to 16
// bytes, to which their address is aligned. widen_DTYPE takes N elements out of N * size / 4 words;
// store_DTYPE rounds and stores N.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_VECTORS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_VECTORS_CUH_

#include "compiler/codegen/cuda/device/elements.cuh"

template <int N>
DEV void load_words(const char* p, u32* w) {
#pragma unroll
  for (int k = 0; k < N / 4; ++k) {
    const uint4 v = ((const uint4*)p)[k];
    w[4 * k] = v.x;
    w[4 * k + 1] = v.y;
    w[4 * k + 2] = v.z;
    w[4 * k + 3] = v.w;
  }
  if (N % 4 == 2) {
    const uint2 v = *(const uint2*)p;
    w[0] = v.x;
    w[1] = v.y;
  }
  if (N % 4 == 1) w[0] = *(const u32*)p;
}
template <int N>
DEV void store_words(char* p, const u32* w) {
#pragma unroll
  for (int k = 0; k < N / 4; ++k)
    ((uint4*)p)[k] = make_uint4(w[4 * k], w[4 * k + 1], w[4 * k + 2], w[4 * k + 3]);
  if (N % 4 == 2) *(uint2*)p = make_uint2(w[0], w[1]);
  if (N % 4 == 1) *(u32*)p = w[0];
}
template <int N>
DEV void fill_words(u32* w) {
#pragma unroll
  for (int k = 0; k < N; ++k) w[k] = 0;
}
template <int N>
DEV void widen_f32(const u32* w, float* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = bits_float(w[k]);
}
template <int N>
DEV void widen_f16(const u32* w, float* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = half_float((unsigned short)(w[k / 2] >> (k % 2 * 16)));
}
template <int N>
DEV void widen_bf16(const u32* w, float* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = bits_float(k % 2 == 0 ? w[k / 2] << 16 : w[k / 2] & 0xffff0000u);
}
template <int N>
DEV void widen_i32(const u32* w, int* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = (int)w[k];
}
template <int N, typename T>
DEV void widen_i8(const u32* w, T* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = (T)(signed char)(w[k / 4] >> (k % 4 * 8));
}
template <int N, typename T>
DEV void widen_i16(const u32* w, T* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = (T)(short)(w[k / 2] >> (k % 2 * 16));
}
template <int N, typename T>
DEV void widen_u8(const u32* w, T* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = (T)(int)(w[k / 4] >> (k % 4 * 8) & 255u);
}
template <int N, typename T>
DEV void widen_bool(const u32* w, T* x) {
#pragma unroll
  for (int k = 0; k < N; ++k) x[k] = (T)((w[k / 4] >> (k % 4 * 8) & 255u) != 0);
}
template <int MANTISSA, int N>
DEV void widen_fp8(const u32* w, float* x) {
#pragma unroll
  for (int k = 0; k < N; k += 2) {
    const u32 halves = fp8_halves<MANTISSA>((unsigned short)(w[k / 4] >> (k % 4 * 8)));
    x[k] = half_float((unsigned short)halves);
    x[k + 1] = half_float((unsigned short)(halves >> 16));
  }
}
template <int N>
DEV void widen_e4m3(const u32* w, float* x) {
  widen_fp8<3, N>(w, x);
}
template <int N>
DEV void widen_e5m2(const u32* w, float* x) {
  widen_fp8<2, N>(w, x);
}
// pack_DTYPE: the words of N elements, rounded.
template <int N>
DEV void pack_f32(const float* x, u32* w) {
#pragma unroll
  for (int k = 0; k < N; ++k) w[k] = (u32)__float_as_int(x[k]);
}
template <int N>
DEV void pack_f16(const float* x, u32* w) {
#pragma unroll
  for (int k = 0; k < N / 2; ++k)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w[k]) : "f"(x[2 * k + 1]), "f"(x[2 * k]));
}
template <int N>
DEV void pack_bf16(const float* x, u32* w) {
#pragma unroll
  for (int k = 0; k < N / 2; ++k)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w[k]) : "f"(x[2 * k + 1]), "f"(x[2 * k]));
}
template <int N>
DEV void pack_i32(const int* x, u32* w) {
#pragma unroll
  for (int k = 0; k < N; ++k) w[k] = (u32)x[k];
}
template <int N>
DEV void store_f32(char* p, i64 at, const float* x) {
  u32 w[N];
  pack_f32<N>(x, w);
  store_words<N>(p + at * 4, w);
}
template <int N>
DEV void store_f16(char* p, i64 at, const float* x) {
  u32 w[N / 2];
  pack_f16<N>(x, w);
  store_words<N / 2>(p + at * 2, w);
}
template <int N>
DEV void store_bf16(char* p, i64 at, const float* x) {
  u32 w[N / 2];
  pack_bf16<N>(x, w);
  store_words<N / 2>(p + at * 2, w);
}
template <int N>
DEV void store_i32(char* p, i64 at, const int* x) {
  u32 w[N];
  pack_i32<N>(x, w);
  store_words<N>(p + at * 4, w);
}
template <int N>
DEV void store_u8(char* p, i64 at, const int* x) {
  u32 w[N / 4];
#pragma unroll
  for (int k = 0; k < N; k += 4)
    w[k / 4] = __byte_perm(__byte_perm((u32)x[k], (u32)x[k + 1], 0x0040),
                           __byte_perm((u32)x[k + 2], (u32)x[k + 3], 0x0040), 0x5410);
  store_words<N / 4>(p + at, w);
}
template <int N>
DEV void store_bool(char* p, i64 at, const int* x) {
  store_u8<N>(p, at, x);
}
template <int MANTISSA, int N>
DEV void store_fp8(char* p, i64 at, const float* x) {
  u32 w[N / 4];
#pragma unroll
  for (int k = 0; k < N; k += 4)
    w[k / 4] = (u32)floats_fp8<MANTISSA>(x[k], x[k + 1]) | (u32)floats_fp8<MANTISSA>(x[k + 2], x[k + 3])
                                                               << 16;
  store_words<N / 4>(p + at, w);
}
template <int N>
DEV void store_e4m3(char* p, i64 at, const float* x) {
  store_fp8<3, N>(p, at, x);
}
template <int N>
DEV void store_e5m2(char* p, i64 at, const float* x) {
  store_fp8<2, N>(p, at, x);
}
template <int N>
DEV void store_i8(char* p, i64 at, const int* x) {
  store_u8<N>(p, at, x);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_VECTORS_CUH_
