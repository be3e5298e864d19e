// Matmuls of a few rows with a matrix that is read once, in place.
#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "core/scalar.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/blocks.h"

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

#if defined(RONDO_SMALL_BLOCKS)
constexpr int kRegisters = 4;
#elif defined(__AVX512F__)
constexpr int kRegisters = 28;
#else
constexpr int kRegisters = 12;
#endif

// Computes columns [0, kVectors * kWidth) of rows [0, kRows).
template <typename E, int kRows, int kVectors>
inline __attribute__((always_inline)) void WalkBlock(const float* a, int64_t a_row, const typename E::Raw* b,
                                                     int64_t b_step, int64_t k, float* acc, int64_t acc_row,
                                                     bool add, int64_t fetch) {
  Vector sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      sum[m][v] = Vector{};
      if (add) sum[m][v] = *reinterpret_cast<const Vector*>(acc + m * acc_row + v * kWidth);
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    const char* ahead = reinterpret_cast<const char*>(b + fetch);
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

// Computes the columns from *j on in blocks of kVectors, then of fewer vectors.
template <typename E, int kRows, int kVectors>
void WalkBlocks(const float* a, int64_t a_row, const typename E::Raw* b, int64_t b_step, int64_t k,
                int columns, float* acc, int64_t acc_row, bool add, int64_t fetch, int* j) {
  for (; *j + kVectors * kWidth <= columns; *j += kVectors * kWidth) {
    WalkBlock<E, kRows, kVectors>(a, a_row, b + *j, b_step, k, acc + *j, acc_row, add, fetch);
  }
  constexpr int kFewer = kVectors > 12 ? 12 : kVectors > 8 ? 8 : kVectors > 4 ? 4 : kVectors > 2 ? 2 : 1;
  if constexpr (kVectors > 1) {
    WalkBlocks<E, kRows, kFewer>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch, j);
  }
}

template <typename E, int kRows>
void WalkTyped(const float* a, int64_t a_row, const typename E::Raw* b, int64_t b_step, int64_t k,
               int columns, float* acc, int64_t acc_row, bool add, int64_t fetch) {
  // 0 if there are more rows than registers, which still use one vector each.
  constexpr int kMost = kRegisters / kRows;
  constexpr int kVectors = kMost >= 16   ? 16
                           : kMost >= 12 ? 12
                           : kMost >= 8  ? 8
                           : kMost >= 4  ? 4
                           : kMost >= 2  ? 2
                                         : 1;
  int j = 0;
  WalkBlocks<E, kRows, kVectors>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch, &j);
  for (; j < columns; ++j) {
    for (int m = 0; m < kRows; ++m) {
      float sum = add ? acc[m * acc_row + j] : 0;
      for (int64_t i = 0; i < k; ++i) sum += a[m * a_row + i] * E::Load(b[i * b_step + j]);
      acc[m * acc_row + j] = sum;
    }
  }
}

typedef int32_t Lanes __attribute__((vector_size(kWidth * 4)));

// The lanes of x (0 to kWidth - 1) and y (from kWidth on) that form the low (kHigh = 0) or high halves of
// their groups of kGroup lanes: first those of x, then those of y.
template <int kGroup, int kHigh>
inline __attribute__((always_inline)) Lanes HalvesOfGroups() {
  Lanes mask;
  for (int i = 0; i < kWidth; ++i) {
    const int half = i / (kWidth / 2), j = i % (kWidth / 2);
    mask[i] = half * kWidth + j / (kGroup / 2) * kGroup + j % (kGroup / 2) + kHigh * (kGroup / 2);
  }
  return mask;
}
// Selects lanes of x and y by their numbers in `mask`. Clang's builtin needs literals.
inline __attribute__((always_inline)) Vector Shuffle(Vector x, Vector y, Lanes mask) {
#if defined(__clang__)
  Vector out;
  for (int i = 0; i < kWidth; ++i) out[i] = mask[i] < kWidth ? x[mask[i]] : y[mask[i] - kWidth];
  return out;
#else
  return __builtin_shuffle(x, y, mask);
#endif
}
template <int kGroup>
inline __attribute__((always_inline)) Vector AddHalves(Vector x, Vector y) {
  return Shuffle(x, y, HalvesOfGroups<kGroup, 0>()) + Shuffle(x, y, HalvesOfGroups<kGroup, 1>());
}

// The sums over the lanes of kCount vectors (a power of two, at most kWidth), as the first kCount lanes. Each
// round halves the vectors and packs two of them into one.
template <int kCount, int kGroup = kWidth>
inline __attribute__((always_inline)) Vector SumsOf(const Vector* x) {
  if constexpr (kCount > 1) {
    Vector half[kCount / 2];
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) half[i] = AddHalves<kGroup>(x[2 * i], x[2 * i + 1]);
    return SumsOf<kCount / 2, kGroup / 2>(half);
  } else if constexpr (kGroup > 1) {
    const Vector half[1] = {AddHalves<kGroup>(x[0], x[0])};
    return SumsOf<1, kGroup / 2>(half);
  } else {
    return x[0];
  }
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
  constexpr int kAtOnce = kCount < kWidth ? kCount : kWidth;
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) {
    float sums[kCount + kWidth];
#pragma GCC unroll 8
    for (int c = 0; c < kCount; c += kAtOnce) {
      const Vector s = SumsOf<kAtOnce>(&sum[m][c]);
      __builtin_memcpy(sums + c, &s, sizeof(s));
    }
    for (int c = 0; c < kCount; ++c) {
      float s = sums[c];
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
             float* acc, int64_t acc_row, bool add, int64_t fetch) {
  const auto* b = reinterpret_cast<const typename E::Raw*>(raw);
  switch (rows) {
    case 1: return WalkTyped<E, 1>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch);
    case 2: return WalkTyped<E, 2>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch);
    case 3: return WalkTyped<E, 3>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch);
    case 4: return WalkTyped<E, 4>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch);
    case 5: return WalkTyped<E, 5>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch);
    case 6: return WalkTyped<E, 6>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch);
    case 7: return WalkTyped<E, 7>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch);
    default: return WalkTyped<E, 8>(a, a_row, b, b_step, k, columns, acc, acc_row, add, fetch);
  }
}

template <typename E>
void DotRows(const float* a, int64_t a_row, int rows, const typename E::Raw* b, int64_t b_step, int64_t k,
             int columns, float* acc, int64_t acc_row, bool add) {
  for (; rows >= 4; rows -= 4, a += 4 * a_row, acc += 4 * acc_row) {
    DotTyped<E, 4>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
  }
  switch (rows) {
    case 1: return DotTyped<E, 1>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 2: return DotTyped<E, 2>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    case 3: return DotTyped<E, 3>(a, a_row, b, b_step, k, columns, acc, acc_row, add);
    default: return;
  }
}

// More than four rows read b again, in pieces that stay in the L1 cache.
template <typename E>
void DotAny(const float* a, int64_t a_row, int rows, const char* raw, int64_t b_step, int64_t k, int columns,
            float* acc, int64_t acc_row, bool add) {
  const auto* b = reinterpret_cast<const typename E::Raw*>(raw);
  if (rows <= 4) return DotRows<E>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add);
  constexpr int kColumns = 8;
  constexpr int64_t kPiece = 512;
  for (int j = 0; j < columns; j += kColumns) {
    const int some = Least(kColumns, columns - j);
    for (int64_t i = 0; i < k; i += kPiece) {
      DotRows<E>(a + i, a_row, rows, b + j * b_step + i, b_step, Least(kPiece, k - i), some, acc + j, acc_row,
                 add || i > 0);
    }
  }
}

}  // namespace

void WalkRows(const float* a, int64_t a_row, int rows, const char* b, DType dtype, int64_t b_step, int64_t k,
              int columns, float* acc, int64_t acc_row, bool add, int64_t fetch) {
  switch (dtype) {
    case DType::kF32: return WalkAny<F32>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add, fetch);
    case DType::kF16: return WalkAny<F16>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add, fetch);
    default: return WalkAny<BF16>(a, a_row, rows, b, b_step, k, columns, acc, acc_row, add, fetch);
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
