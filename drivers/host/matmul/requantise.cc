// Scales rows of byte sums and optionally quantises them: see Requantisation. Compiled without fusing
// multiplications and additions, which would round once where the replaced tape rounds twice. Column values
// stay in registers from row to row. Lanes after the last column read 0: arbitrary bits there may be NaN,
// with which some processors take longer than for a whole row.
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/tape/quotient.h"
#include "drivers/host/tape/to_bytes.h"

namespace rondo::host::RONDO_ISA {
namespace {

#if defined(__AVX512F__)

template <bool kRow, bool kBefore, typename Out>
void Rows(const Requantisation& how, const RequantisedRows& r) {
  const __m512 low = _mm512_set1_ps(how.low), high = _mm512_set1_ps(how.high);
  const ToBytes to_bytes(how.scale, how.zero);
  for (int i = 0; i < r.columns; i += 16) {
    const auto some = static_cast<__mmask16>(r.columns - i < 16 ? (1u << (r.columns - i)) - 1 : 0xffff);
    const __m512i less = _mm512_maskz_loadu_epi32(some, r.less + i);
    const __m512i times = kRow ? _mm512_maskz_loadu_epi32(some, r.times + i) : _mm512_setzero_si512();
    const __m512 before = kBefore ? _mm512_maskz_loadu_ps(some, r.before + i) : _mm512_setzero_ps();
    const __m512 factor = _mm512_maskz_loadu_ps(some, r.factor + i);
    const __m512 after = _mm512_maskz_loadu_ps(some, r.after + i);
    const int32_t* sums = r.sums + i;
    char* out = r.out + i * static_cast<int>(sizeof(Out));
    for (int m = 0; m < r.rows; ++m, sums += r.sums_row, out += r.out_row) {
      __m512i sum = _mm512_sub_epi32(_mm512_loadu_si512(sums), less);
      sum = _mm512_add_epi32(sum, _mm512_set1_epi32(static_cast<int>(r.more[m])));
      if constexpr (kRow) {
        const __m512i row = _mm512_set1_epi32(static_cast<int>(r.row[m]));
        sum = _mm512_sub_epi32(sum, _mm512_mullo_epi32(row, times));
      }
      __m512 x = _mm512_maskz_cvtepi32_ps(0xffff, sum);
      if constexpr (kBefore) x = _mm512_add_ps(x, before);
      x = _mm512_add_ps(_mm512_mul_ps(x, factor), after);
      x = _mm512_maskz_min_ps(0xffff, high, _mm512_maskz_max_ps(0xffff, low, x));  // NaN stays NaN
      if constexpr (sizeof(Out) == sizeof(float)) {
        if (how.quantises) x = _mm512_maskz_cvtepi32_ps(0xffff, to_bytes.Of(x));
        _mm512_mask_storeu_ps(out, some, x);
      } else {
        StoreBytes(to_bytes.Of(x), some, out);
      }
    }
  }
}

#else

// The same rows; column values are padded with zeros to a multiple of 16.
class WholeColumns {
 public:
  explicit WholeColumns(const RequantisedRows& r) : rows_(r) {
    const int n = r.columns, end = (n + 15) & ~15;
    if (n == end) return;
    float* some = some_;
    for (const float** numbers : {&rows_.before, &rows_.factor, &rows_.after}) {
      if (*numbers == nullptr) continue;
      std::memcpy(some, *numbers, static_cast<size_t>(n) * sizeof(float));
      std::memset(some + n, 0, static_cast<size_t>(end - n) * sizeof(float));
      *numbers = some;
      some += kLanes;
    }
  }
  const RequantisedRows& operator*() const { return rows_; }

 private:
  RequantisedRows rows_;
  float some_[3 * kLanes];
};

// Computes the columns, and some after them up to a multiple of 16.
template <bool kRow, bool kBefore, bool kQuantises>
void Numbers(const Requantisation& how, const RequantisedRows& r, int m, float* out) {
  const float low = how.low, high = how.high, zero = how.zero;
  const int32_t *sums = r.sums + m * r.sums_row, *less = r.less, *times = r.times;
  const float *before = r.before, *factor = r.factor, *after = r.after;
  const uint32_t more = r.more[m], row = kRow ? r.row[m] : 0;
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

template <bool kRow, bool kBefore>
void RowOfFloats(const Requantisation& how, const RequantisedRows& r, int m, float* out) {
  float some[kLanes];
  float* const numbers = r.columns % 16 == 0 ? out : some;
  how.quantises ? Numbers<kRow, kBefore, true>(how, r, m, numbers)
                : Numbers<kRow, kBefore, false>(how, r, m, numbers);
  if (numbers != out) CopyFloats(numbers, r.columns, out);
}

#if defined(__AVX2__)

// Converts sums of eight columns of one row to integers of a byte.
template <bool kRow, bool kBefore>
class EightBytes {
 public:
  EightBytes(const Requantisation& how, const RequantisedRows& r, int i)
      : low_(_mm256_set1_ps(how.low)),
        high_(_mm256_set1_ps(how.high)),
        to_bytes_(how.scale, how.zero),
        less_(Whole(r.less + i)),
        times_(kRow ? Whole(r.times + i) : _mm256_setzero_si256()),
        before_(kBefore ? _mm256_loadu_ps(r.before + i) : _mm256_setzero_ps()),
        factor_(_mm256_loadu_ps(r.factor + i)),
        after_(_mm256_loadu_ps(r.after + i)) {}
  inline __attribute__((always_inline)) __m256i Of(const int32_t* sums, uint32_t more, uint32_t row) const {
    __m256i sum =
        _mm256_add_epi32(_mm256_sub_epi32(Whole(sums), less_), _mm256_set1_epi32(static_cast<int>(more)));
    if constexpr (kRow)
      sum = _mm256_sub_epi32(sum, _mm256_mullo_epi32(_mm256_set1_epi32(static_cast<int>(row)), times_));
    __m256 x = _mm256_cvtepi32_ps(sum);
    if constexpr (kBefore) x = _mm256_add_ps(x, before_);
    x = _mm256_add_ps(_mm256_mul_ps(x, factor_), after_);
    x = _mm256_min_ps(high_, _mm256_max_ps(low_, x));  // NaN stays
    return to_bytes_.Of(x);
  }

 private:
  static inline __attribute__((always_inline)) __m256i Whole(const int32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  const __m256 low_, high_;
  const ToBytes to_bytes_;
  const __m256i less_, times_;
  const __m256 before_, factor_, after_;
};

template <bool kRow, bool kBefore, typename Byte>
void RowsOfBytes(const Requantisation& how, const RequantisedRows& r) {
  for (int i = 0; i < r.columns; i += 16) {
    const EightBytes<kRow, kBefore> one(how, r, i), other(how, r, i + 8);
    const int32_t* sums = r.sums + i;
    Byte* out = reinterpret_cast<Byte*>(r.out) + i;
    for (int m = 0; m < r.rows; ++m, sums += r.sums_row, out += r.out_row) {
      const uint32_t more = r.more[m], row = kRow ? r.row[m] : 0;
      StoreBytes(one.Of(sums, more, row), other.Of(sums + 8, more, row), r.columns - i, out);
    }
  }
}

#else

template <bool kRow, bool kBefore, typename Byte>
void RowsOfBytes(const Requantisation& how, const RequantisedRows& r) {
  float numbers[kLanes];
  for (int m = 0; m < r.rows; ++m) {
    Numbers<kRow, kBefore, true>(how, r, m, numbers);
    Byte* out = reinterpret_cast<Byte*>(r.out + m * r.out_row);
#pragma GCC ivdep
    for (int i = 0; i < r.columns; ++i)
      out[i] = static_cast<Byte>(static_cast<int32_t>(numbers[i] == numbers[i] ? numbers[i] : 0));
  }
}

#endif

template <bool kRow, bool kBefore, typename Out>
void Rows(const Requantisation& how, const RequantisedRows& rows) {
  const WholeColumns whole(rows);
  const RequantisedRows& r = *whole;
  if constexpr (sizeof(Out) == 1) {
    RowsOfBytes<kRow, kBefore, Out>(how, r);
  } else {
    for (int m = 0; m < r.rows; ++m)
      RowOfFloats<kRow, kBefore>(how, r, m, reinterpret_cast<float*>(r.out + m * r.out_row));
  }
}

#endif

template <bool kRow, bool kBefore>
void RowsAs(const Requantisation& how, const RequantisedRows& rows) {
  if (!how.quantises || how.out == nullptr) return Rows<kRow, kBefore, float>(how, rows);
  how.is_signed ? Rows<kRow, kBefore, int8_t>(how, rows) : Rows<kRow, kBefore, uint8_t>(how, rows);
}

void Requantise(const Requantisation& how, const RequantisedRows& rows) {
  if (rows.times != nullptr)
    return rows.before != nullptr ? RowsAs<true, true>(how, rows) : RowsAs<true, false>(how, rows);
  rows.before != nullptr ? RowsAs<false, true>(how, rows) : RowsAs<false, false>(how, rows);
}

}  // namespace

RequantiseRows RowsRequantiser() { return Requantise; }

}  // namespace rondo::host::RONDO_ISA
