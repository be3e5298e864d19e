// Rows of sums of bytes, scaled and perhaps quantised: see Requantisation. Compiled without joining products
// and sums, which would round once where the tape that this stands for rounds twice.
#include "drivers/host/exec/exec.h"
#include "drivers/host/exec/quotient.h"

namespace rondo::host::RONDO_ISA {
namespace {

// Of the columns, and of some behind them up to a multiple of 16.
template <bool kRow, bool kBefore, bool kQuantises>
void Numbers(const Requantisation& how, const RequantisedRow& r, float* out) {
  const float low = how.low, high = how.high, zero = how.zero;
  const int32_t *sums = r.sums, *less = r.less, *times = r.times;
  const float *before = r.before, *factor = r.factor, *after = r.after;
  const uint32_t more = r.more, row = r.row;
  const Quotient quotient(how.scale);
  const int end = (r.columns + 15) & ~15;
#pragma GCC ivdep
  for (int i = 0; i < end; ++i) {
    uint32_t sum = static_cast<uint32_t>(sums[i]) + more - static_cast<uint32_t>(less[i]);
    if constexpr (kRow) sum -= row * static_cast<uint32_t>(times[i]);
    float x = static_cast<float>(static_cast<int32_t>(sum));
    if constexpr (kBefore) x += before[i];
    x = x * factor[i] + after[i];
    x = x < low ? low : x;
    x = x > high ? high : x;
    out[i] = kQuantises ? __builtin_nearbyintf(quotient.Of(x)) + zero : x;
  }
}

#if defined(__AVX512F__)

// The same in registers. Quotients as in quotient.h: none is too large for its remainder.
template <bool kRow, bool kBefore, typename Byte>
void Bytes(const Requantisation& how, const RequantisedRow& r, Byte* out) {
  const __m512 low = _mm512_set1_ps(how.low), high = _mm512_set1_ps(how.high),
               scale = _mm512_set1_ps(how.scale);
  const __m512 reciprocal = _mm512_set1_ps(1 / how.scale);
  const __m512i zero = _mm512_set1_epi32(static_cast<int>(how.zero)),
                more = _mm512_set1_epi32(static_cast<int>(r.more)),
                row = _mm512_set1_epi32(static_cast<int>(r.row));
  for (int i = 0; i < r.columns; i += 16) {
    __m512i sum = _mm512_sub_epi32(_mm512_loadu_si512(r.sums + i), _mm512_loadu_si512(r.less + i));
    sum = _mm512_add_epi32(sum, more);
    if constexpr (kRow) sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(row, _mm512_loadu_si512(r.times + i)));
    __m512 x = _mm512_maskz_cvtepi32_ps(0xffff, sum);
    if constexpr (kBefore) x = _mm512_add_ps(x, _mm512_loadu_ps(r.before + i));
    x = _mm512_add_ps(_mm512_mul_ps(x, _mm512_loadu_ps(r.factor + i)), _mm512_loadu_ps(r.after + i));
    x = _mm512_maskz_min_ps(0xffff, high, _mm512_maskz_max_ps(0xffff, low, x));  // what is no number stays
    const __m512 product = _mm512_mul_ps(x, reciprocal);
    const __m512 once = _mm512_fmadd_ps(_mm512_fnmadd_ps(product, scale, x), reciprocal, product);
    const __m512 twice = _mm512_fmadd_ps(_mm512_fnmadd_ps(once, scale, x), reciprocal, once);
    const __mmask16 numbers = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);  // others are 0
    const __m512i whole = _mm512_maskz_add_epi32(numbers, _mm512_maskz_cvtps_epi32(numbers, twice), zero);
    const int left = r.columns - i;
    const auto some = static_cast<__mmask16>(left < 16 ? (1u << left) - 1 : 0xffff);
    _mm512_mask_cvtepi32_storeu_epi8(out + i, some, whole);
  }
}

#elif defined(__AVX2__)

template <bool kRow, bool kBefore, typename Byte>
void Bytes(const Requantisation& how, const RequantisedRow& r, Byte* out) {
  const __m256 low = _mm256_set1_ps(how.low), high = _mm256_set1_ps(how.high),
               scale = _mm256_set1_ps(how.scale), reciprocal = _mm256_set1_ps(1 / how.scale);
  const __m256i zero = _mm256_set1_epi32(static_cast<int>(how.zero)),
                more = _mm256_set1_epi32(static_cast<int>(r.more)),
                row = _mm256_set1_epi32(static_cast<int>(r.row));
  const int32_t *const sums = r.sums, *const less = r.less, *const times = r.times;
  const float *const before = r.before, *const factor = r.factor, *const after = r.after;
  const int columns = r.columns;
  const auto eight = [=](int i) {
    const auto whole = [=](const int32_t* from) {
      return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    };
    __m256i sum = _mm256_add_epi32(_mm256_sub_epi32(whole(sums), whole(less)), more);
    if constexpr (kRow) sum = _mm256_sub_epi32(sum, _mm256_mullo_epi32(row, whole(times)));
    __m256 x = _mm256_cvtepi32_ps(sum);
    if constexpr (kBefore) x = _mm256_add_ps(x, _mm256_loadu_ps(before + i));
    x = _mm256_add_ps(_mm256_mul_ps(x, _mm256_loadu_ps(factor + i)), _mm256_loadu_ps(after + i));
    x = _mm256_min_ps(high, _mm256_max_ps(low, x));  // what is no number stays
    const __m256 product = _mm256_mul_ps(x, reciprocal);
    const __m256 once = _mm256_fmadd_ps(_mm256_fnmadd_ps(product, scale, x), reciprocal, product);
    const __m256 twice = _mm256_fmadd_ps(_mm256_fnmadd_ps(once, scale, x), reciprocal, once);
    const __m256i numbers = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_ORD_Q));  // others are 0
    return _mm256_and_si256(_mm256_add_epi32(_mm256_cvtps_epi32(twice), zero), numbers);
  };
  for (int i = 0; i < columns; i += 16) {
    // Pairs of four come as 0, 2, 1, 3.
    const __m256i pairs = _mm256_permute4x64_epi64(_mm256_packs_epi32(eight(i), eight(i + 8)), 0xd8);
    const __m128i first = _mm256_castsi256_si128(pairs), second = _mm256_extracti128_si256(pairs, 1);
    const __m128i bytes =
        static_cast<Byte>(-1) < 0 ? _mm_packs_epi16(first, second) : _mm_packus_epi16(first, second);
    if (i + 16 <= columns) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bytes);
    } else {
      alignas(16) Byte some[16];
      _mm_store_si128(reinterpret_cast<__m128i*>(some), bytes);
      for (int c = 0; i + c < columns; ++c) out[i + c] = some[c];
    }
  }
}

#else

template <bool kRow, bool kBefore, typename Byte>
void Bytes(const Requantisation& how, const RequantisedRow& r, Byte* out) {
  float numbers[kLanes];
  Numbers<kRow, kBefore, true>(how, r, numbers);
#pragma GCC ivdep
  for (int i = 0; i < r.columns; ++i)
    out[i] = static_cast<Byte>(static_cast<int32_t>(numbers[i] == numbers[i] ? numbers[i] : 0));
}

#endif

template <bool kRow, bool kBefore>
void RowAs(const Requantisation& how, const RequantisedRow& row) {
  if (how.quantises && how.out->dtype == DType::kI8)
    return Bytes<kRow, kBefore>(how, row, reinterpret_cast<int8_t*>(row.out));
  if (how.quantises) return Bytes<kRow, kBefore>(how, row, reinterpret_cast<uint8_t*>(row.out));
  float* const out = reinterpret_cast<float*>(row.out);
  if (row.columns % 16 == 0) return Numbers<kRow, kBefore, false>(how, row, out);
  float numbers[kLanes];
  Numbers<kRow, kBefore, false>(how, row, numbers);
  CopyFloats(numbers, row.columns, out);
}

void Requantise(const Requantisation& how, const RequantisedRow& row) {
  if (row.times != nullptr) {
    return row.before != nullptr ? RowAs<true, true>(how, row) : RowAs<true, false>(how, row);
  }
  return row.before != nullptr ? RowAs<false, true>(how, row) : RowAs<false, false>(how, row);
}

}  // namespace

RequantiseRow RowRequantiser() { return Requantise; }

}  // namespace rondo::host::RONDO_ISA
