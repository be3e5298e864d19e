// Numbers of 16 bits as two digits of 8 bits, for the units of tensor cores that multiply bytes.
//
// Whole digits: of a run of numbers, each is taken as a multiple of the power of two with which the greatest
// has 16 bits: what that leaves is at most 2^-15 of the greatest. Real digits, of bf16, are numbers of E4M3:
// the nearest one, and a 16th of the other, which has what is left. That is all of it but for numbers that
// are 2^-13 of the greatest or less, and at most 2^-21 of the greatest there. Where a number of the run is
// not finite, the power is NaN.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_DIGITS_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_DIGITS_CUH_

#include "compiler/codegen/cuda/device/elements.cuh"

// The greater of each of two pairs of whole numbers of 15 bits.
DEV u32 greater_pair(u32 x, u32 y) {
#if __CUDA_ARCH__ >= 900
  u32 z;
  asm("max.u16x2 %0, %1, %2;" : "=r"(z) : "r"(x), "r"(y));
  return z;
#else
  const u32 low = (x & 0xffffu) > (y & 0xffffu) ? x & 0xffffu : y & 0xffffu;
  return low | (x >> 16 > y >> 16 ? x & 0xffff0000u : y & 0xffff0000u);
#endif
}

// An element of a pair.
template <bool BF16>
DEV float widened(u32 pair, int high) {
  if (BF16) return bits_float(high ? pair & 0xffff0000u : pair << 16);
  return half_float((unsigned short)(high ? pair >> 16 : pair));
}

// `up` makes numbers whole ones, `unit` makes numbers of those again.
struct DigitScale {
  float up, unit;
};
// `most`: the greatest of a run, as the bits of its type, without signs.
template <bool BF16>
DEV DigitScale digit_scale(u32 most) {
  // Digits are -128 to 127, so that the greatest whole number, 32639, is a 250th less than a power of two.
  const u32 own = (u32)__float_as_int(widened<BF16>(most, 0) * 1.004f) >> 23, exponent = own > 17 ? own : 17;
  return {bits_float((14 + 254 - exponent) << 23),
          exponent == 255 ? bits_float(0x7fc00000u) : bits_float((exponent - 14) << 23)};
}

// Of real digits: the greatest is 128 to 256.
DEV DigitScale real_digit_scale(u32 most) {
  const u32 own = (u32)__float_as_int(widened<true>(most, 0)) >> 23, exponent = own > 17 ? own : 17;
  return {bits_float((7 + 254 - exponent) << 23),
          exponent == 255 ? bits_float(0x7fc00000u) : bits_float((exponent - 7) << 23)};
}

// The whole number that is added to this is the low bits of the sum; 128 more rounds what the second byte
// begins with, and the first is off by as much.
DEV float digit_magic() { return 12582912.0f + 128.0f; }

// The digits of four numbers, two pairs: a word of the upper ones and one of the lower, whose bytes have the
// elements of `first` and `second` by turns. SUMMED: `sum` grows by the numbers, each with the bits of
// digit_magic() too much.
template <bool BF16, bool SUMMED>
DEV void four_digits(u32 first, u32 second, float up, u32& high, u32& low, u32& sum) {
  const u32 pair[2] = {first, second};
  u32 bits[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    bits[e] = (u32)__float_as_int(__fmaf_rn(widened<BF16>(pair[e % 2], e / 2), up, digit_magic()));
    if (SUMMED) sum += bits[e];
  }
  const u32 two = __byte_perm(bits[0], bits[1], 0x5140), others = __byte_perm(bits[2], bits[3], 0x5140);
  high = __byte_perm(two, others, 0x7632);
  low = __byte_perm(two, others, 0x5410) ^ 0x80808080u;
}

// The same of real digits.
DEV u32 e4m3_pair(float low, float high) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
}
DEV void four_real_digits(u32 first, u32 second, float up, u32& high, u32& low) {
  u32 upper[2], lower[2];
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const float x = widened<true>(first, e) * up, y = widened<true>(second, e) * up;
    upper[e] = e4m3_pair(x, y);
    u32 halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((unsigned short)upper[e]));
    lower[e] = e4m3_pair((x - widened<false>(halves, 0)) * 16, (y - widened<false>(halves, 1)) * 16);
  }
  high = upper[0] | upper[1] << 16;
  low = lower[0] | lower[1] << 16;
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_DIGITS_CUH_
