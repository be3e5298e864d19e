// Products of a few rows with a matrix that is read once, where it lies.
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "core/scalar.h"
#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {
namespace {

typedef uint16_t HalfVector __attribute__((vector_size(kWidth * 2), aligned(2), may_alias));
typedef uint32_t WordVector __attribute__((vector_size(kWidth * 4), aligned(4), may_alias));

struct F32 {
  using Raw = float;
  static inline __attribute__((always_inline)) Vector LoadVector(const float* p) {
    return *reinterpret_cast<const Vector*>(p);
  }
  static float Load(float x) { return x; }
};
struct BF16 {
  using Raw = uint16_t;
  static inline __attribute__((always_inline)) Vector LoadVector(const uint16_t* p) {
    const HalfVector h = *reinterpret_cast<const HalfVector*>(p);
    const WordVector w = __builtin_convertvector(h, WordVector) << 16;
    return reinterpret_cast<Vector>(w);
  }
  static float Load(uint16_t x) { return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16); }
};
struct F16 {
  using Raw = uint16_t;
  static inline __attribute__((always_inline)) Vector LoadVector(const uint16_t* p) {
#if defined(__AVX512F__)
    return reinterpret_cast<Vector>(
        _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
#elif defined(__F16C__)
    return reinterpret_cast<Vector>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
#else
    Vector v;
    for (int i = 0; i < kWidth; ++i) v[i] = F16ToFloat(p[i]);
    return v;
#endif
  }
  static float Load(uint16_t x) {
#if defined(__F16C__)
    return _cvtsh_ss(x);
#else
    return F16ToFloat(x);
#endif
  }
};

#if defined(__AVX512F__)
constexpr int kRegisters = 28;
#elif defined(__AVX2__)
constexpr int kRegisters = 12;
#else
constexpr int kRegisters = 12;
#endif

// Columns [0, kVectors * kWidth) of rows [0, kRows).
template <typename E, int kRows, int kVectors>
inline __attribute__((always_inline)) void WalkBlock(const float* a, int64_t a_row, const typename E::Raw* b,
                                                     int64_t b_step, int64_t k, float* acc, int64_t acc_row,
                                                     bool add) {
  Vector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      sum[m][v] = Vector{};
      if (add) sum[m][v] = *reinterpret_cast<const Vector*>(acc + m * acc_row + v * kWidth);
    }
  }
  constexpr int64_t kAhead = 8;  // rows fetched ahead
  for (int64_t i = 0; i < k; ++i) {
    const char* ahead = reinterpret_cast<const char*>(b + kAhead * b_step);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      if (v * kWidth * sizeof(typename E::Raw) % 64 == 0) {
        __builtin_prefetch(ahead + v * kWidth * static_cast<int>(sizeof(typename E::Raw)));
      }
      const Vector x = E::LoadVector(b + v * kWidth);
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m) sum[m][v] += x * a[m * a_row + i];
    }
    b += b_step;
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Vector*>(acc + m * acc_row + v * kWidth) = sum[m][v];
    }
  }
}

template <typename E, int kRows>
void WalkTyped(const float* a, int64_t a_row, const typename E::Raw* b, int64_t b_step, int64_t k,
               int columns, float* acc, int64_t acc_row, bool add) {
  constexpr int kMost = kRegisters / kRows;
  constexpr int kVectors = kMost >= 16 ? 16 : kMost >= 8 ? 8 : kMost >= 4 ? 4 : kMost >= 2 ? 2 : 1;
  int j = 0;
  for (; j + kVectors * kWidth <= columns; j += kVectors * kWidth) {
    WalkBlock<E, kRows, kVectors>(a, a_row, b + j, b_step, k, acc + j, acc_row, add);
  }
  if constexpr (kVectors > 4) {
    for (; j + 4 * kWidth <= columns; j += 4 * kWidth) {
      WalkBlock<E, kRows, 4>(a, a_row, b + j, b_step, k, acc + j, acc_row, add);
    }
  }
  if constexpr (kVectors > 1) {
    for (; j + kWidth <= columns; j += kWidth) {
      WalkBlock<E, kRows, 1>(a, a_row, b + j, b_step, k, acc + j, acc_row, add);
    }
  }
  for (; j < columns; ++j) {
    for (int m = 0; m < kRows; ++m) {
      float sum = add ? acc[m * acc_row + j] : 0;
      for (int64_t i = 0; i < k; ++i) sum += a[m * a_row + i] * E::Load(b[i * b_step + j]);
      acc[m * acc_row + j] = sum;
    }
  }
}

inline __attribute__((always_inline)) float SumOf(Vector v) {
  float parts[kWidth];
  __builtin_memcpy(parts, &v, sizeof(v));
  for (int half = kWidth / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

// Dot products of kRows rows of a with kCount rows of b.
template <typename E, int kRows, int kCount>
inline __attribute__((always_inline)) void DotBlock(const float* a, int64_t a_row, const typename E::Raw* b,
                                                    int64_t b_step, int64_t k, float* acc, int64_t acc_row,
                                                    bool add) {
  Vector sum[kRows][kCount] = {};
  int64_t i = 0;
  for (; i + kWidth <= k; i += kWidth) {
#pragma GCC unroll 8
    for (int c = 0; c < kCount; ++c) {
      const Vector x = E::LoadVector(b + c * b_step + i);
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m) sum[m][c] += x * *reinterpret_cast<const Vector*>(a + m * a_row + i);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 8
    for (int c = 0; c < kCount; ++c) {
      float s = SumOf(sum[m][c]);
      for (int64_t r = i; r < k; ++r) s += a[m * a_row + r] * E::Load(b[c * b_step + r]);
      float& to = acc[m * acc_row + c];
      to = add ? to + s : s;
    }
  }
}

template <typename E, int kRows>
void DotTyped(const float* a, int64_t a_row, const typename E::Raw* b, int64_t b_step, int64_t k, int columns,
              float* acc, int64_t acc_row, bool add) {
  constexpr int kMost = kRegisters / kRows;
  constexpr int kCount = kMost >= 8 ? 8 : kMost >= 4 ? 4 : kMost >= 2 ? 2 : 1;
  int j = 0;
  for (; j + kCount <= columns; j += kCount) {
    DotBlock<E, kRows, kCount>(a, a_row, b + j * b_step, b_step, k, acc + j, acc_row, add);
  }
  if constexpr (kCount > 1) {
    for (; j < columns; ++j) {
      DotBlock<E, kRows, 1>(a, a_row, b + j * b_step, b_step, k, acc + j, acc_row, add);
    }
  }
}

template <typename E>
void WalkAny(const float* a, int64_t a_row, int rows, const char* raw, int64_t b_step, int64_t k, int columns,
             float* acc, int64_t acc_row, bool add) {
  const auto* b = reinterpret_cast<const typename E::Raw*>(raw);
  switch (rows) {
    case 1: return WalkTyped<E, 1>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 2: return WalkTyped<E, 2>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 3: return WalkTyped<E, 3>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 4: return WalkTyped<E, 4>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 5: return WalkTyped<E, 5>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 6: return WalkTyped<E, 6>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 7: return WalkTyped<E, 7>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    default: return WalkTyped<E, 8>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
  }
}

template <typename E>
void DotAny(const float* a, int64_t a_row, int rows, const char* raw, int64_t b_step, int64_t k, int columns,
            float* acc, int64_t acc_row, bool add) {
  const auto* b = reinterpret_cast<const typename E::Raw*>(raw);
  while (rows >= 4) {  // rows of b stay in the first cache for the next four rows of a
    DotTyped<E, 4>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    a += 4 * a_row;
    acc += 4 * acc_row;
    rows -= 4;
  }
  switch (rows) {
    case 1: return DotTyped<E, 1>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 2: return DotTyped<E, 2>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 3: return DotTyped<E, 3>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    default: return;
  }
}

}  // namespace

void WalkRows(const float* a, int64_t a_row, int rows, const char* b, DType dtype, int64_t b_step, int64_t k,
              int columns, float* acc, int64_t acc_row, bool add) {
  switch (dtype) {
    case DType::kF32: return WalkAny<F32>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add);
    case DType::kF16: return WalkAny<F16>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add);
    default: return WalkAny<BF16>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add);
  }
}

void Dots(const float* a, int64_t a_row, int rows, const char* b, DType dtype, int64_t b_step, int64_t k,
          int columns, float* acc, int64_t acc_row, bool add) {
  switch (dtype) {
    case DType::kF32: return DotAny<F32>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add);
    case DType::kF16: return DotAny<F16>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add);
    default: return DotAny<BF16>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add);
  }
}

}  // namespace rondo::host::RONDO_ISA
