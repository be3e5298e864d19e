// f32 functions without branches, so that loops over them vectorise. Relative error about 1e-7, a few
// units in the last place, except where stated. Reductions and polynomials follow Cephes (S. Moshier);
// erf follows N. Juffa's two-piece minimax form.
#pragma once

#include <cmath>
#include <cstdint>

#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {

static inline int32_t BitsOf(float x) { return __builtin_bit_cast(int32_t, x); }
static inline float FromBits(int32_t x) { return __builtin_bit_cast(float, x); }
static inline float AbsF(float x) { return FromBits(BitsOf(x) & 0x7fffffff); }

static inline float ExpF(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  float c = x > 89.0f ? 89.0f : x;
  c = c < -104.0f ? -104.0f : c;
  const float shifted = c * 1.44269504088896341f + kMagic;
  const float n = shifted - kMagic;
  float r = c - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t e = BitsOf(shifted) - BitsOf(kMagic);
  const int32_t half = e >> 1;  // two factors, so that results below 2^-126 and above 2^127 are correct
  return p * FromBits((half + 127) << 23) * FromBits((e - half + 127) << 23);
}

static inline float LogF(float x) {
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  int32_t bits = BitsOf(scaled);
  int32_t e = ((bits >> 23) & 0xff) - 126;
  float m = FromBits((bits & 0x007fffff) | 0x3f000000);  // in [0.5, 1)
  const bool low = m < 0.707106781186547524f;
  e = low ? e - 1 : e;
  m = low ? m + m - 1.0f : m - 1.0f;
  const float n = static_cast<float>(e) - (tiny ? 23.0f : 0.0f);
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z;
  y = y + n * -2.12194440e-4f;
  y = y - 0.5f * z;
  float r = m + y;
  r = r + n * 0.693359375f;
  r = x == __builtin_inff() ? x : r;
  r = x == 0.0f ? -__builtin_inff() : r;
  r = x < 0.0f ? __builtin_nanf("") : r;
  return x != x ? x : r;
}

static inline float TanhF(float x) {
  const float a = AbsF(x);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = p * z * x + x;
  const float big = 1.0f - 2.0f / (ExpF(2.0f * a) + 1.0f);
  const float r = a < 0.625f ? AbsF(small) : big;
  return x != x ? x : FromBits(BitsOf(r) | (BitsOf(x) & static_cast<int32_t>(0x80000000u)));
}

static inline float SigmoidF(float x) { return 1.0f / (1.0f + ExpF(-x)); }

static inline float ErfF(float x) {
  const float t = AbsF(x);
  const float s = x * x;
  const float c = t > 4.5f ? 4.5f : t;  // 1 - erf(4.5) is below one half unit in the last place
  const float cs = c * c;
  float r = -1.72853470e-5f * c + 3.83197126e-4f;
  const float u = -3.88396438e-3f * c + 2.42546219e-2f;
  r = r * cs + u;
  r = r * c - 1.06777877e-1f;
  r = r * c - 6.34846687e-1f;
  r = r * c - 1.28717512e-1f;
  r = r * c - c;
  const float big = 1.0f - ExpF(r);
  const float signed_big = FromBits(BitsOf(big) | (BitsOf(x) & static_cast<int32_t>(0x80000000u)));
  float p = -5.96761703e-4f;
  p = p * s + 4.99119423e-3f;
  p = p * s - 2.67681349e-2f;
  p = p * s + 1.12819925e-1f;
  p = p * s - 3.76125336e-1f;
  p = p * s + 1.28379166e-1f;
  const float small = p * x + x;
  const float y = t > 0.927734375f ? signed_big : small;
  return x != x ? x : y;
}

// sin (quarter = 0) or cos (quarter = 1) of |x| <= kTrigLimit; absolute error about 1e-7.
inline constexpr float kTrigLimit = 8192.0f;
static inline float SinQuarter(float x, int32_t quarter) {
  constexpr float kMagic = 12582912.0f;
  const float shifted = x * 0.636619772367581343f + kMagic;
  const float n = shifted - kMagic;
  float r = x - n * 1.5703125f;
  r = r - n * 4.837512969970703125e-4f;
  r = r - n * 7.549789948768648e-8f;
  const int32_t q = BitsOf(shifted) - BitsOf(kMagic) + quarter;
  const float z = r * r;
  float s = -1.9515295891e-4f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  float c = 2.443315711809948e-5f;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  const float y = (q & 1) != 0 ? c : s;
  const float signed_y = (q & 2) != 0 ? -y : y;
  return quarter == 0 && x == 0.0f ? x : signed_y;  // keeps the sign of a zero
}

}  // namespace rondo::host::RONDO_ISA
