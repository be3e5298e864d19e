// Quantisation in tapes: to integer floats, or to the bytes that store them.
#include "drivers/host/exec/exec.h"
#include "drivers/host/tape/quotient.h"
#include "drivers/host/tape/to_bytes.h"

namespace rondo::host::RONDO_ISA {
namespace {

// Registers have room for whole vectors.
int Whole(int n) { return (n + 15) & ~15; }

// Computes round(a / scale) + zero in [low, high] of all lanes; the four parameters are the same for all.
void QuantiseLanes(const float* a, float* out, int n, float scale, float zero, float low, float high) {
  const int end = Whole(n);
  if (QuotientIsQuick(scale, zero, low, high)) {
    const Quotient quotient(scale);
#pragma GCC ivdep
    for (int i = 0; i < end; ++i) {
      const float x = __builtin_nearbyintf(quotient.Of(a[i])) + zero;
      const float y = x < low ? low : x;
      out[i] = y > high ? high : y;
    }
    return;
  }
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) {
    const float x = __builtin_nearbyintf(a[i] / scale) + zero;
    const float y = x < low ? low : x;
    out[i] = y > high ? high : y;
  }
}

#if defined(__AVX512F__)

// Converts 64 floats at a time to bytes, if the range is a byte's whole range. It multiplies by the rounded
// reciprocal; the product is at most 3 units in the last place from the quotient. Returns false for numbers
// nearer to a half than this, and for NaN: the caller then divides. Numbers beyond a byte are limited while
// they are packed; numbers whose products no longer distinguish neighbours are far beyond it.
template <typename Byte>
class QuickBytes {
 public:
  QuickBytes(float scale, float zero)
      : reciprocal_(_mm512_set1_ps(1 / scale)), zero_(_mm512_set1_epi16(static_cast<int16_t>(zero))) {}
  inline __attribute__((always_inline)) bool Of(const float* a, Byte* out) const {
    __m512i whole[4];
    __mmask16 unsure = 0;
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const __m512 product = _mm512_mul_ps(_mm512_loadu_ps(a + 16 * v), reciprocal_);
      whole[v] = _mm512_maskz_cvtps_epi32(0xffff, product);
      const __m512 rest = _mm512_sub_ps(product, _mm512_maskz_cvtepi32_ps(0xffff, whole[v]));
      unsure |= _mm512_cmp_ps_mask(_mm512_abs_ps(rest), _mm512_set1_ps(kSure), _CMP_NLT_UQ);
    }
    if (__builtin_expect(unsure != 0, 0)) return false;
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero_);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), zero_);
    const __m512i bytes =
        static_cast<Byte>(-1) < 0 ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
    // The fours of four vectors come in quarters.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(out, _mm512_maskz_permutexvar_epi32(0xffff, order, bytes));
    return true;
  }

 private:
  static constexpr float kSure = 0.499f;
  const __m512 reciprocal_;
  const __m512i zero_;
};

template <typename Byte>
void LimitedToBytes(const float* a, Byte* out, int n, float scale, float zero, float low, float high) {
  const __m512 least = _mm512_set1_ps((low - zero) * scale), greatest = _mm512_set1_ps((high - zero) * scale);
  const ToBytes to_bytes(scale, zero);
  const QuickBytes<Byte> quick(scale, zero);
  constexpr float kLow = static_cast<Byte>(-1) < 0 ? -128 : 0;
  const bool whole = low == kLow && high == kLow + 255 && zero >= -255 && zero <= 255;
  for (int i = 0; i < n; i += 16) {
    for (; whole && i + 64 <= n && quick.Of(a + i, out + i); i += 64) {
    }
    if (i >= n) return;
    const auto some = static_cast<__mmask16>(n - i < 16 ? (1u << (n - i)) - 1 : 0xffff);
    __m512 x = _mm512_maskz_loadu_ps(some, a + i);
    x = _mm512_maskz_min_ps(0xffff, greatest, _mm512_maskz_max_ps(0xffff, least, x));  // NaN stays
    StoreBytes(to_bytes.Of(x), some, out + i);
  }
}

#elif defined(__AVX2__)

// The same for 32 at a time.
template <typename Byte>
class QuickBytes {
 public:
  QuickBytes(float scale, float zero)
      : reciprocal_(_mm256_set1_ps(1 / scale)), zero_(_mm256_set1_epi16(static_cast<int16_t>(zero))) {}
  inline __attribute__((always_inline)) bool Of(const float* a, Byte* out) const {
    __m256i whole[4];
    __m256 unsure = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const __m256 product = _mm256_mul_ps(_mm256_loadu_ps(a + 8 * v), reciprocal_);
      whole[v] = _mm256_cvtps_epi32(product);
      const __m256 rest = _mm256_sub_ps(product, _mm256_cvtepi32_ps(whole[v]));
      const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), rest);
      unsure = _mm256_or_ps(unsure, _mm256_cmp_ps(size, _mm256_set1_ps(kSure), _CMP_NLT_UQ));
    }
    if (__builtin_expect(_mm256_movemask_ps(unsure) != 0, 0)) return false;
    const __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(whole[0], whole[1]), zero_);
    const __m256i high = _mm256_adds_epi16(_mm256_packs_epi32(whole[2], whole[3]), zero_);
    const __m256i bytes =
        static_cast<Byte>(-1) < 0 ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
    // The fours of four vectors come in halves.
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(bytes, order));
    return true;
  }

 private:
  static constexpr float kSure = 0.499f;
  const __m256 reciprocal_;
  const __m256i zero_;
};

template <typename Byte>
void LimitedToBytes(const float* a, Byte* out, int n, float scale, float zero, float low, float high) {
  const QuickBytes<Byte> quick(scale, zero);
  constexpr float kLow = static_cast<Byte>(-1) < 0 ? -128 : 0;
  const bool whole = low == kLow && high == kLow + 255 && zero >= -255 && zero <= 255;
  const __m256 least = _mm256_set1_ps((low - zero) * scale), greatest = _mm256_set1_ps((high - zero) * scale);
  const ToBytes to_bytes(scale, zero);
  const auto eight = [&](const float* from) {
    return to_bytes.Of(_mm256_min_ps(greatest, _mm256_max_ps(least, _mm256_loadu_ps(from))));  // NaN stays
  };
  for (int i = 0; i < n; i += 16) {
    for (; whole && i + 32 <= n && quick.Of(a + i, out + i); i += 32) {
    }
    if (i >= n) return;
    if (i + 16 <= n) {
      StoreBytes(eight(a + i), eight(a + i + 8), 16, out + i);
    } else {
      float last[16] = {};
      CopyFloats(a + i, n - i, last);
      StoreBytes(eight(last), eight(last + 8), n - i, out + i);
    }
  }
}

#endif

// `a` may be memory: nothing after n is read. Any number of lanes.
template <typename Byte>
void QuantiseToBytes(const void* a, void* out, int n, float scale, float zero, const float* range) {
  const float* from = static_cast<const float*>(a);
  Byte* to = static_cast<Byte*>(out);
#if defined(__AVX2__)
  if (QuotientIsQuick(scale, zero, range[0], range[1]) && zero == __builtin_truncf(zero))
    return LimitedToBytes(from, to, n, scale, zero, range[0], range[1]);
#endif
  for (; n > 0; n -= kLanes, from += kLanes, to += kLanes) {
    float some[kLanes] = {};
    const int here = Least(n, kLanes);
    std::memcpy(some, from, static_cast<size_t>(here) * sizeof(float));
    QuantiseLanes(some, some, here, scale, zero, range[0], range[1]);
#pragma GCC ivdep
    for (int i = 0; i < here; ++i)
      to[i] = static_cast<Byte>(static_cast<int32_t>(some[i] == some[i] ? some[i] : 0));
  }
}

// Where scale and zero point are: both in the instruction; the scale in lane 0 of register b; or also the
// zero point in lane 0 of register c.
enum class From { kNowhere, kScale, kBoth };
template <From kFrom>
float ScaleOf(const Registers& r, const Inst& inst) {
  return kFrom == From::kNowhere ? inst.imm.range[2] : *static_cast<const float*>(r.b);
}
template <From kFrom>
float ZeroOf(const Registers& r, const Inst& inst) {
  return kFrom == From::kBoth ? *static_cast<const float*>(r.c) : inst.imm.range[3];
}

template <From kFrom>
void QuantiseOp(const Registers& r, const Inst& inst, int n) {
  QuantiseLanes(static_cast<const float*>(r.a), static_cast<float*>(r.out), n, ScaleOf<kFrom>(r, inst),
                ZeroOf<kFrom>(r, inst), inst.imm.range[0], inst.imm.range[1]);
}
template <From kFrom, typename Byte>
void QuantiseBytesOp(const Registers& r, const Inst& inst, int n) {
  QuantiseToBytes<Byte>(r.a, r.out, n, ScaleOf<kFrom>(r, inst), ZeroOf<kFrom>(r, inst), inst.imm.range);
}

template <From kFrom>
constexpr Quantisers Of() {
  return {QuantiseOp<kFrom>, QuantiseBytesOp<kFrom, uint8_t>, QuantiseBytesOp<kFrom, int8_t>};
}

void TableOp(const Registers& r, const Inst& inst, int n) {
  const float* const a = static_cast<const float*>(r.a);
  const float* const table = inst.imm.table;
  float* const out = static_cast<float*>(r.out);
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) out[i] = table[static_cast<int32_t>(a[i] == a[i] ? a[i] : 0) & 0xff];
}

}  // namespace

void FillQuantisers(Engine* engine) {
  engine->table = TableOp;
  engine->quantise = Of<From::kNowhere>();
  engine->quantise_scaled = Of<From::kScale>();
  engine->quantise_by = Of<From::kBoth>();
}

}  // namespace rondo::host::RONDO_ISA
