// Floats to numbers of few bits, as QuantizeLinear has them.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUANTISED_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUANTISED_CUH_

#include "compiler/codegen/cuda/device/quantised_steps.h"
#include "compiler/codegen/cuda/device/types.cuh"

DEV float clamped(float x, float low, float high) {
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(x), "f"(low));
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(x) : "f"(x), "f"(high));
  return x;
}

// The nearest whole number of steps of `scale` to x between those of which `low` and `high` are the products
// with it; NaN stays. `reciprocal`: 1 / scale, rounded.
DEV float quantised(float x, float scale, float reciprocal, float low, float high) {
  return WholeSteps(clamped(x, low, high), scale, reciprocal);
}

// x / scale where E4M3 is made of it: at most about its greatest number, of which `most` is the product with
// the scale; NaN stays.
DEV float e4m3_quotient(float x, float scale, float reciprocal, float most) {
  return Quotient(clamped(x, -most, most), scale, reciprocal);
}

// The same by a scale that the run computes, where low and high, and zero, which is added, are whole numbers:
// the nearest whole number of steps and zero, between low and high. What depends on x alone has no branch, so
// that the numbers of a thread are computed abreast.
DEV float quantised_in_run(float x, float scale, float low, float high, float zero) {
  const RunSteps steps = StepsInRun(scale, low - zero, high - zero);
  return quantised(x * steps.factor, steps.scale, steps.reciprocal, steps.low, steps.high) + zero;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUANTISED_CUH_
