// Quotients by a constant that are then rounded to integers of a small range.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/tape/math.h"

namespace rondo::host::RONDO_ISA {

// x / scale, rounded as a division, under the conditions of QuotientIsQuick.
//
// With fused multiply-add, multiplying by the rounded reciprocal and correcting the result twice by its
// remainder gives the same, at a fifth of the cost (P. Markstein, "Computation of elementary functions on the
// IBM RISC System/6000 processor", 1990). Remainders are exact for such scales and for quotients of at least
// 1/4; smaller ones round to 0 either way. Infinities have no remainder, and large products are out of range
// anyway.
class Quotient {
 public:
#if defined(__FMA__)
  explicit Quotient(float scale) : scale_(scale), reciprocal_(1 / scale) {}
  inline __attribute__((always_inline)) float Of(float x) const {
    constexpr float kMostNumber = 1 << 22;
    const float product = x * reciprocal_;
    const float once = __builtin_fmaf(__builtin_fmaf(-product, scale_, x), reciprocal_, product);
    const float twice = __builtin_fmaf(__builtin_fmaf(-once, scale_, x), reciprocal_, once);
    return AbsF(product) < kMostNumber ? twice : product;
  }

 private:
  const float scale_, reciprocal_;
#else
  explicit Quotient(float scale) : scale_(scale) {}
  float Of(float x) const { return x / scale_; }

 private:
  const float scale_;
#endif
};

}  // namespace rondo::host::RONDO_ISA
