// The scalar functions of tapes, op_NAME: core/scalar.h on a device. They take float, double or i64 (which
// wraps around).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_SCALAR_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_SCALAR_CUH_

#include "compiler/codegen/cuda/device/truncate.cuh"
#include "compiler/codegen/cuda/device/types.cuh"

#define UNARY(name, expr_float, expr_double)             \
  DEV float op_##name(float x) { return expr_float; }    \
  DEV double op_##name(double x) { return expr_double; } \
  DEV i64 op_##name(i64 v) {                             \
    double x = (double)v;                                \
    return float_int(expr_double);                       \
  }
UNARY(sqrt, sqrtf(x), sqrt(x))
UNARY(rsqrt, 1.0f / sqrtf(x), 1.0 / sqrt(x))
UNARY(exp, expf(x), exp(x))
UNARY(log, logf(x), log(x))
UNARY(sin, sinf(x), sin(x))
UNARY(cos, cosf(x), cos(x))
UNARY(tan, tanf(x), tan(x))
UNARY(asin, asinf(x), asin(x))
UNARY(acos, acosf(x), acos(x))
UNARY(atan, atanf(x), atan(x))
UNARY(sinh, sinhf(x), sinh(x))
UNARY(cosh, coshf(x), cosh(x))
UNARY(tanh, tanhf(x), tanh(x))
UNARY(asinh, asinhf(x), asinh(x))
UNARY(acosh, acoshf(x), acosh(x))
UNARY(atanh, atanhf(x), atanh(x))
UNARY(erf, erff(x), erf(x))
UNARY(log1p, log1pf(x), log1p(x))
UNARY(expm1, expm1f(x), expm1(x))
UNARY(sigmoid, 1.0f / (1.0f + expf(-x)), 1.0 / (1.0 + exp(-x)))
#define REAL(name, expr_float, expr_double, expr_int)    \
  DEV float op_##name(float x) { return expr_float; }    \
  DEV double op_##name(double x) { return expr_double; } \
  DEV i64 op_##name(i64 x) { return expr_int; }
REAL(neg, -x, -x, (i64)(0 - (u64)x))
REAL(abs, fabsf(x), fabs(x), x < 0 ? (i64)(0 - (u64)x) : x)
REAL(sign, x != x ? x : (float)((x > 0) - (x < 0)), x != x ? x : (double)((x > 0) - (x < 0)),
     (i64)((x > 0) - (x < 0)))
REAL(floor, floorf(x), floor(x), x)
REAL(ceil, ceilf(x), ceil(x), x)
REAL(round, rintf(x), rint(x), x)
REAL(trunc, truncf(x), trunc(x), x)
REAL(reciprocal, 1.0f / x, 1.0 / x, x == 1 || x == -1 ? x : 0)
DEV i64 op_bitnot(i64 x) { return ~x; }
template <typename T>
DEV i64 op_not(T x) {
  return x == 0;
}
template <typename T>
DEV i64 op_isnan(T x) {
  return x != x;
}
template <typename T>
DEV i64 op_isinf(T x, i64 which) {
  T inf = (T)(1.0 / 0.0);
  return ((which & 1) && x == inf) || ((which & 2) && x == -inf);
}
DEV i64 op_isinf(i64, i64) { return 0; }
template <typename T>
DEV T op_add(T a, T b) {
  return a + b;
}
DEV i64 op_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
template <typename T>
DEV T op_sub(T a, T b) {
  return a - b;
}
DEV i64 op_sub(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
template <typename T>
DEV T op_mul(T a, T b) {
  return a * b;
}
DEV i64 op_mul(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
template <typename T>
DEV T op_div(T a, T b) {
  return a / b;
}
DEV i64 op_div(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0 - (u64)a) : a / b; }
DEV float op_pow(float a, float b) { return powf(a, b); }
DEV double op_pow(double a, double b) { return pow(a, b); }
DEV i64 op_pow(i64 a, i64 b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  u64 r = 1, x = (u64)a;
  for (u64 e = (u64)b; e != 0; e >>= 1) {
    if (e & 1) r *= x;
    x *= x;
  }
  return (i64)r;
}
template <typename T>
DEV T op_min(T a, T b) {
  return a != a ? a : b != b ? b : a < b ? a : b;
}
template <typename T>
DEV T op_max(T a, T b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
}
DEV float op_fmod(float a, float b) { return fmodf(a, b); }
DEV double op_fmod(double a, double b) { return fmod(a, b); }
DEV i64 op_fmod(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
// A remainder of 0 has the sign of `like`.
DEV float signed_zero(float like) { return copysignf(0.0f, like); }
DEV double signed_zero(double like) { return copysign(0.0, like); }
DEV i64 signed_zero(i64) { return 0; }
template <typename T>
DEV T op_mod(T a, T b) {
  T r = op_fmod(a, b);
  if (r == 0) return signed_zero(b);
  return (r < 0) != (b < 0) ? r + b : r;
}
DEV i64 op_bitand(i64 a, i64 b) { return a & b; }
DEV i64 op_bitor(i64 a, i64 b) { return a | b; }
DEV i64 op_bitxor(i64 a, i64 b) { return a ^ b; }
DEV i64 op_shl(i64 a, i64 b) { return b < 0 || b > 63 ? 0 : (i64)((u64)a << b); }
DEV i64 op_shr(i64 a, i64 b) { return b < 0 || b > 63 ? 0 : (i64)((u64)a >> b); }
DEV float op_atan2(float a, float b) { return atan2f(a, b); }
DEV double op_atan2(double a, double b) { return atan2(a, b); }
DEV i64 op_atan2(i64 a, i64 b) { return float_int(atan2((double)a, (double)b)); }
template <typename T>
DEV i64 op_less(T a, T b) {
  return a < b;
}
template <typename T>
DEV i64 op_lessequal(T a, T b) {
  return a <= b;
}
template <typename T>
DEV i64 op_equal(T a, T b) {
  return a == b;
}
template <typename T>
DEV T op_fma(T a, T b, T c) {
  return a * b + c;
}
DEV i64 op_fma(i64 a, i64 b, i64 c) { return (i64)((u64)a * (u64)b + (u64)c); }

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_SCALAR_CUH_
