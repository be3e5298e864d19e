// round(x / scale) + zero of vectors of floats, as bytes. Requires QuotientIsQuick for the scale, and x
// clamped to values that fit a byte: then no quotient is too large for its remainder (quotient.h).
#pragma once

#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {

#if defined(__AVX512F__)

// 16 floats; NaN becomes 0.
class ToBytes {
 public:
  ToBytes(float scale, float zero)
      : scale_(_mm512_set1_ps(scale)),
        reciprocal_(_mm512_set1_ps(1 / scale)),
        zero_(_mm512_set1_epi32(static_cast<int>(zero))) {}
  inline __attribute__((always_inline)) __m512i Of(__m512 x) const {
    const __m512 product = _mm512_mul_ps(x, reciprocal_);
    const __m512 once = _mm512_fmadd_ps(_mm512_fnmadd_ps(product, scale_, x), reciprocal_, product);
    const __m512 twice = _mm512_fmadd_ps(_mm512_fnmadd_ps(once, scale_, x), reciprocal_, once);
    const __mmask16 numbers = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
    return _mm512_maskz_add_epi32(numbers, _mm512_maskz_cvtps_epi32(numbers, twice), zero_);
  }

 private:
  const __m512 scale_, reciprocal_;
  const __m512i zero_;
};

// Stores the bytes selected by `some`; a store without a mask is much faster.
inline __attribute__((always_inline)) void StoreBytes(__m512i whole, __mmask16 some, void* out) {
  const __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xffff, whole);
  if (some == 0xffff) {
    _mm_storeu_si128(static_cast<__m128i*>(out), bytes);
  } else {
    _mm_mask_storeu_epi8(out, some, bytes);
  }
}

#elif defined(__AVX2__)

// Eight floats, as 32-bit integers; NaN becomes 0.
class ToBytes {
 public:
  ToBytes(float scale, float zero)
      : scale_(_mm256_set1_ps(scale)),
        reciprocal_(_mm256_set1_ps(1 / scale)),
        zero_(_mm256_set1_epi32(static_cast<int>(zero))) {}
  inline __attribute__((always_inline)) __m256i Of(__m256 x) const {
    const __m256 product = _mm256_mul_ps(x, reciprocal_);
    const __m256 once = _mm256_fmadd_ps(_mm256_fnmadd_ps(product, scale_, x), reciprocal_, product);
    const __m256 twice = _mm256_fmadd_ps(_mm256_fnmadd_ps(once, scale_, x), reciprocal_, once);
    const __m256i numbers = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q));
    return _mm256_and_si256(_mm256_add_epi32(_mm256_cvtps_epi32(twice), zero_), numbers);
  }

 private:
  const __m256 scale_, reciprocal_;
  const __m256i zero_;
};

// Sixteen of them as bytes of type Byte, `n` of which are stored.
template <typename Byte>
inline void StoreBytes(__m256i one, __m256i other, int n, Byte* out) {
  // The packing leaves groups of four in the order 0, 2, 1, 3.
  const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packs_epi32(one, other), 0xd8);
  const __m128i first = _mm256_castsi256_si128(pairs), second = _mm256_extracti128_si256(pairs, 1);
  const __m128i bytes =
      static_cast<Byte>(-1) < 0 ? _mm_packs_epi16(first, second) : _mm_packus_epi16(first, second);
  if (n >= 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
  // Stores by the bits of n: few stores and no loop.
  auto left = static_cast<uint64_t>(_mm_cvtsi128_si64(bytes));
  if ((n & 8) != 0) {
    std::memcpy(out, &left, 8);
    out += 8;
    left = static_cast<uint64_t>(_mm_extract_epi64(bytes, 1));
  }
  if ((n & 4) != 0) {
    std::memcpy(out, &left, 4);
    out += 4;
    left >>= 32;
  }
  if ((n & 2) != 0) {
    std::memcpy(out, &left, 2);
    out += 2;
    left >>= 16;
  }
  if ((n & 1) != 0) *out = static_cast<Byte>(left);
}

#endif

}  // namespace rondo::host::RONDO_ISA
