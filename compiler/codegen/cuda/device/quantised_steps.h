// The quotient by a constant, and rounded to a whole number, without a division.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUANTISED_STEPS_H_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUANTISED_STEPS_H_

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

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_QUANTISED_STEPS_H_
