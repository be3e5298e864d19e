// Casts of tapes: cast_TYPE<to>(x), in registers of TYPE, to what the DType of number `to` holds.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_CASTS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_CASTS_CUH_

#include "compiler/codegen/cuda/device/elements.cuh"
#include "compiler/codegen/cuda/device/truncate.cuh"

template <int to>
DEV i64 wrap(i64 x) {
  return to == 5    ? (i64)(int)x
         : to == 6  ? (i64)(short)x
         : to == 7  ? (i64)(signed char)x
         : to == 8  ? (i64)(unsigned char)x
         : to == 9  ? (i64)(unsigned short)x
         : to == 10 ? (i64)(u32)x
         : to == 12 ? (i64)(x != 0)
                    : x;
}
template <int to>
DEV float round_to(float x) {
  return to == 1    ? half_float(float_half(x))
         : to == 2  ? bf16_float(float_bf16(x))
         : to == 13 ? fp8_float<3>(float_fp8<3>(x))
         : to == 14 ? fp8_float<2>(float_fp8<2>(x))
                    : x;
}
template <int to>
DEV i64 cast_i64(float x) {
  return to == 12 ? (i64)(x != 0) : wrap<to>(to == 11 ? float_uint(x) : float_int(x));
}
template <int to>
DEV i64 cast_i64(double x) {
  return to == 12 ? (i64)(x != 0) : wrap<to>(to == 11 ? float_uint(x) : float_int(x));
}
template <int to>
DEV i64 cast_i64(i64 x) {
  return wrap<to>(x);
}
template <int to, typename T>
DEV float cast_f32(T x) {
  return round_to<to>((float)x);
}
template <int to, typename T>
DEV double cast_f64(T x) {
  return (double)x;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_CASTS_CUH_
