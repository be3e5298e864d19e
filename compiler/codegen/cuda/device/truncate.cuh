// Floats to integers, as core/scalar.h has it: toward zero, and to the nearest that there is; NaN to 0.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TRUNCATE_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TRUNCATE_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

template <typename F>
DEV i64 float_int(F x) {
  if (x != x) return 0;
  if (x >= (F)9223372036854775808.0) return 0x7fffffffffffffffll;
  if (x <= (F)-9223372036854775808.0) return (i64)0x8000000000000000ull;
  return (i64)x;
}
// To u64. What is negative wraps around, as with every other integer type.
template <typename F>
DEV i64 float_uint(F x) {
  if (!(x >= (F)9223372036854775808.0)) return float_int(x);
  if (x >= (F)18446744073709551616.0) return -1;
  return (i64)(u64)x;
}
// Of a whole number from -2^31 to 2^31, which wraps around.
DEV int rounded_int(float x) { return x < 2147483648.0f ? __float2int_rz(x) : (int)0x80000000u; }

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TRUNCATE_CUH_
