// Scalar functions where results are rounded to 16 bits or fewer: they err by about 1e-6, and count
// subnormal numbers as 0.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUICK_SCALAR_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUICK_SCALAR_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// 2 to the power of x, and 1 / x, by one instruction each.
DEV float quick_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEV float quick_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

DEV float quick_exp(float x) { return quick_exp2(1.44269504f * x); }
// The compiler takes the reciprocal of one y for many x once. Powers of two keep those of tiny y finite.
DEV float quick_div(float x, float y) {
  const float up = fabsf(y) < 0x1p-64f ? 0x1p64f : 1.0f;
  return x * up * (1.0f / (y * up));
}
DEV float quick_sigmoid(float x) { return quick_reciprocal(1.0f + quick_exp(-x)); }

// Near 0 a series, since 1 - (1 - x) keeps only x's leading bits.
DEV float quick_tanh(float x) {
  const float far = __fmaf_rn(-2.0f, quick_sigmoid(-2.0f * x), 1.0f);
  return fabsf(x) < 0.05f ? x * __fmaf_rn(-0.33333333f, x * x, 1.0f) : far;
}
DEV float quick_tanh_plus_1(float x) { return 2.0f * quick_sigmoid(2.0f * x); }

// 1 - erf(|x|) as a power of 2, whose exponent is |x| times a polynomial in |x|. It was fitted so that up to
// 4 it errs by at most 5e-7 and by 1.5e-4 of its value; beyond it decreases to 0.
DEV float quick_erfc_of_size(float x) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(fabsf(x)), "f"(9.0f));
  float p = __fmaf_rn(2.48672712e-4f, y, -4.18001246e-3f);
  p = __fmaf_rn(p, y, 3.17598375e-2f);
  p = __fmaf_rn(p, y, -1.50309169e-1f);
  p = __fmaf_rn(p, y, -9.17991921e-1f);
  p = __fmaf_rn(p, y, -1.62793974f);
  return quick_exp2(p * y);
}
DEV float quick_erf(float x) {
  const float far = copysignf(1.0f - quick_erfc_of_size(x), x);
  return fabsf(x) < 0.05f ? x * __fmaf_rn(-0.3761264f, x * x, 1.1283792f) : far;
}
DEV float quick_erf_plus_1(float x) {
  const float rest = quick_erfc_of_size(x);
  return x < 0 ? rest : 2.0f - rest;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUICK_SCALAR_CUH_
