// The quotient by a constant, or by what is the same for many numbers, and rounded to a whole number, without
// a division for each.
#pragma once

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// RN(x / scale) of an x that is finite, where that is between 2^-32 and 2^32 or 0; -0 may become 0.
// `reciprocal` is RN(1 / scale), `scale` between 2^-64 and 2^64. The quotient is first that by the
// reciprocal, then corrected by its own remainder, twice: the second time it is the one that rounding gives
// (P. Markstein, Computation of elementary functions on the IBM RISC System/6000 processor, 1990). (The host
// includes <math.h> before.)
HOST_DEVICE float Quotient(float x, float scale, float reciprocal) {
  float q = x * reciprocal;
  q = fmaf(fmaf(-q, scale, x), reciprocal, q);
  return fmaf(fmaf(-q, scale, x), reciprocal, q);
}

// The whole number nearest to that, halves to even, where it is less than 2^22. Adding 3 * 2^22 leaves no
// fraction.
HOST_DEVICE float WholeSteps(float x, float scale, float reciprocal) {
  return (Quotient(x, scale, reciprocal) + 12582912.0f) - 12582912.0f;
}

// What is made once of a scale that the run computes, whatever it is: `factor` times x over `scale` is x over
// it, and `scale` is between 2^-64 and 2^64. A factor that is a power of two changes no place of a quotient
// that is not rounded to 0 or beyond the bounds. A scale that has no quotients between (0, infinite, no
// number) is 1, and the factor its reciprocal. `low` and `high`: the products of the bounds with `scale`.
struct RunSteps {
  float factor, scale, reciprocal, low, high;
};

HOST_DEVICE RunSteps StepsInRun(float scale, float low, float high) {
  constexpr float kLeast = 0x1p-64f, kGreatest = 0x1p64f, kMost = 3.402823466e+38f;
  const float size = scale < 0 ? -scale : scale;
  RunSteps steps{};
  if (size > 0 && size <= kMost) {
    const float by = size < kLeast ? 0x1p96f : size > kGreatest ? 0x1p-64f : 1.0f;
    steps.factor = scale < 0 ? -by : by;
    steps.scale = size * by;
  } else {
    steps.factor = 1.0f / scale;
    steps.scale = 1.0f;
  }
  steps.reciprocal = 1.0f / steps.scale;
  steps.low = low * steps.scale;
  steps.high = high * steps.scale;
  return steps;
}

}  // namespace rondo::cuda
