// Scalar functions where results are rounded to 16 bits or fewer: they err by about 1e-6.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUICK_SCALAR_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUICK_SCALAR_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

DEV float quick_exp(float x) { return __expf(x); }
DEV float quick_sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
// Abramowitz and Stegun 7.1.26, which errs by 1.5e-7; the first terms of the series near 0.
DEV float quick_erf(float x) {
  const float y = fabsf(x), t = __fdividef(1.0f, __fmaf_rn(0.3275911f, y, 1.0f));
  float p = __fmaf_rn(1.061405429f, t, -1.453152027f);
  p = __fmaf_rn(p, t, 1.421413741f);
  p = __fmaf_rn(p, t, -0.284496736f);
  p = __fmaf_rn(p, t, 0.254829592f);
  const float far = copysignf(__fmaf_rn(-p * t, __expf(-x * x), 1.0f), x);
  return y < 0.05f ? x * __fmaf_rn(-0.3761264f, x * x, 1.1283792f) : far;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUICK_SCALAR_CUH_
