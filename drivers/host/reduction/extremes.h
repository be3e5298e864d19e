// The minimum and maximum of many floats.
#pragma once

#include "core/scalar.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/reduction/scalars.h"
#include "drivers/host/tape/math.h"

namespace rondo::host::RONDO_ISA {

// A minimum or maximum so far: many running values, which End combines into one. Comparisons ignore NaN;
// `bits` detects it, since its bits without the sign are greater than those of every number.
struct Extreme {
  static constexpr int kAtOnce = 64;
  float value[kAtOnce];
  int32_t bits[kAtOnce];

  void Start(TapeOp op) {
    for (float& v : value) v = scalar::ReduceStart<float>(op);
    std::memset(bits, 0, sizeof(bits));
  }
  void Merge(TapeOp op, const Extreme& other) {
    const bool most = op == TapeOp::kReduceMax;
    for (int j = 0; j < kAtOnce; ++j) {
      value[j] = (most ? other.value[j] > value[j] : other.value[j] < value[j]) ? other.value[j] : value[j];
      bits[j] = other.bits[j] > bits[j] ? other.bits[j] : bits[j];
    }
  }
  float End(TapeOp op) const {
    constexpr int32_t kInfinity = 0x7f800000;
    float most = value[0];
    int32_t greatest = bits[0];
    for (int j = 1; j < kAtOnce; ++j) {
      most = scalar::ReduceStep<float>(op, most, value[j]);
      greatest = bits[j] > greatest ? bits[j] : greatest;
    }
    return greatest > kInfinity ? __builtin_nanf("") : most;
  }
};

// Adds n floats to the minimum, the maximum, or both.
template <bool kLeast, bool kGreatest>
[[gnu::flatten]] void TakeFloats(const float* x, int64_t n, Extreme* least, Extreme* greatest) {
  constexpr int kAtOnce = Extreme::kAtOnce;
  float low[kAtOnce], high[kAtOnce];
  int32_t bits[kAtOnce];
  if (kLeast) std::memcpy(low, least->value, sizeof(low));
  if (kGreatest) std::memcpy(high, greatest->value, sizeof(high));
  std::memcpy(bits, (kLeast ? least : greatest)->bits, sizeof(bits));
  const auto take = [&](int count) __attribute__((always_inline)) {
#pragma GCC ivdep
    for (int j = 0; j < count; ++j) {
      const int32_t b = BitsOf(x[j]) & 0x7fffffff;
      if (kLeast) low[j] = x[j] < low[j] ? x[j] : low[j];
      if (kGreatest) high[j] = x[j] > high[j] ? x[j] : high[j];
      bits[j] = b > bits[j] ? b : bits[j];
    }
  };
  for (; n >= kAtOnce; n -= kAtOnce, x += kAtOnce) take(kAtOnce);
  take(static_cast<int>(n));
  if (kLeast) std::memcpy(least->value, low, sizeof(low));
  if (kGreatest) std::memcpy(greatest->value, high, sizeof(high));
  if (kLeast) std::memcpy(least->bits, bits, sizeof(bits));
  if (kGreatest) std::memcpy(greatest->bits, bits, sizeof(bits));
}

// A worker's range of the values it writes (Worker::range).
struct Range {
  Extreme least, greatest;
};
static_assert(sizeof(Range) <= kRangeBytes);
static inline Range& RangeOf(const Worker& w) { return *reinterpret_cast<Range*>(w.range); }
static inline void StartRange(const Worker& w) {
  if (w.range == nullptr) return;
  RangeOf(w).least.Start(TapeOp::kReduceMin);
  RangeOf(w).greatest.Start(TapeOp::kReduceMax);
}
// Adds n columns, of the tile at pos, of the `rows` rows from `row` on that were just written.
static inline void TakeWritten(const PartProgram& part, const Worker& w, int64_t* pos, int64_t row,
                               int64_t rows, int n) {
  if (w.range == nullptr) return;
  const Nest& nest = part.nest;
  const Access& written = *part.written;
  Decode(nest, nest.first[1], nest.first[2], row, pos);
  const float* x = reinterpret_cast<const float*>(Pointer(written, w, BaseOf(written, pos)));
  int64_t step = n;
  for (int i = 0; i < written.num_loops; ++i) {
    if (written.loop[i] == nest.first[2] - 1) step = written.step[i];
  }
  Range& range = RangeOf(w);
  if (step == n) return TakeFloats<true, true>(x, rows * n, &range.least, &range.greatest);
  for (int64_t r = 0; r < rows; ++r, x += step) TakeFloats<true, true>(x, n, &range.least, &range.greatest);
}

// Whether a scalar is kept as an Extreme while the elements of a row come.
static inline bool HasExtreme(TapeOp op, TapeType type) {
  return type == TapeType::kF32 && (op == TapeOp::kReduceMax || op == TapeOp::kReduceMin);
}
// It is stored where other slots have their sum.
static inline Extreme& ExtremeOf(char* scalars, int slot) {
  return *reinterpret_cast<Extreme*>(ScalarAt(scalars, slot, kSum));
}
static_assert(sizeof(Extreme) <= kLanes * 8);

}  // namespace rondo::host::RONDO_ISA
