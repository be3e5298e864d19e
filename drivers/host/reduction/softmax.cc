// Softmax of rows (SoftmaxProgram), one row at a time in a cache. Results are those of the tapes that it
// replaces: the same functions of the same floats, with sums in the same order.
#include "drivers/host/exec/exec.h"
#include "drivers/host/reduction/extremes.h"
#include "drivers/host/reduction/reduce_tile.h"
#include "drivers/host/reduction/scalars.h"
#include "drivers/host/tape/math.h"

namespace rondo::host::RONDO_ISA {
namespace {

// Writes (byte - zero) * scale of n bytes and returns the maximum. Both parameters are finite.
template <typename Byte>
[[gnu::flatten]] float ReadBytes(const Byte* from, int64_t n, float zero, float scale, float* to) {
  constexpr int kAtOnce = 32;
  float most[kAtOnce];
  for (float& m : most) m = -__builtin_inff();
  const auto some = [&](int count) __attribute__((always_inline)) {
#pragma GCC ivdep
    for (int j = 0; j < count; ++j) {
      const float x = (static_cast<float>(from[j]) - zero) * scale;
      to[j] = x;
      most[j] = x > most[j] ? x : most[j];
    }
  };
  for (; n >= kAtOnce; n -= kAtOnce, from += kAtOnce, to += kAtOnce) some(kAtOnce);
  some(static_cast<int>(n));
  return ReduceParts<TapeOp::kReduceMax, kAtOnce / 2>(most);
}

float ReadFloats(const float* from, int64_t n, float* to) {
  Extreme extreme;
  extreme.Start(TapeOp::kReduceMax);
  TakeFloats<false, true>(from, n, nullptr, &extreme);
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  return extreme.End(TapeOp::kReduceMax);
}

// Replaces n numbers by exp(x - most), and returns their sum, computed tile by tile.
[[gnu::flatten]] float Exponentials(float* x, int64_t n, float most, int64_t tile, Worker& w) {
  double sum = 0;
  for (int64_t at = 0; at < n && !Stopped(w); at += tile, x += tile) {
    const int here = static_cast<int>(Least(tile, n - at));
#pragma GCC ivdep
    for (int i = 0; i < here; ++i) x[i] = ExpF(x[i] - most);
    sum += ReduceTile<TapeOp::kReduceSum>(x, here);
  }
  return static_cast<float>(sum);
}

// Divides n numbers by `by`, in place or to `to`.
void Divide(const float* x, int64_t n, float by, float* to) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = x[i] / by;
}

constexpr int64_t kAtOnce = 1 << 14;  // numbers between two checks of the stop signal

// Reads the row as floats and returns the maximum.
template <typename F>
float ReadRow(int64_t n, Worker& w, F read) {
  float most = -__builtin_inff();
  for (int64_t at = 0; at < n && !Stopped(w); at += kAtOnce) {
    const float some = read(at, Least(kAtOnce, n - at));
    most = scalar::ReduceStep<float>(TapeOp::kReduceMax, most, some);
  }
  return most;
}

float ReadRow(const SoftmaxProgram& softmax, const char* from, int64_t n, Worker& w, float* row) {
  const auto bytes = [&](auto byte) {
    const auto* const numbers = reinterpret_cast<const decltype(byte)*>(from);
    return ReadRow(n, w, [&](int64_t at, int64_t count) {
      return ReadBytes(numbers + at, count, softmax.zero, softmax.scale, row + at);
    });
  };
  if (softmax.from->dtype == DType::kI8) return bytes(int8_t{0});
  if (softmax.from->dtype == DType::kU8) return bytes(uint8_t{0});
  const auto* const floats = reinterpret_cast<const float*>(from);
  return ReadRow(n, w, [&](int64_t at, int64_t count) { return ReadFloats(floats + at, count, row + at); });
}

}  // namespace

void RunSoftmax(const ReductionPart& part, Worker& w, int64_t first, int64_t last) {
  const Nest& nest = part.nest;
  const SoftmaxProgram& softmax = *part.softmax;
  const int64_t n = nest.points[1];
  float* const row = reinterpret_cast<float*>(w.scratch + part.kept_at);
  int64_t pos[kMaxNest] = {};
  Decode(nest, 0, nest.first[1], first, pos);
  for (int64_t r = first; r < last && !Stopped(w); ++r) {
    const char* const from = Pointer(*softmax.from, w, BaseOf(*softmax.from, pos));
    char* const to = Pointer(*softmax.to, w, BaseOf(*softmax.to, pos));
    const float most = ReadRow(softmax, from, n, w, row);
    const float sum = Exponentials(row, n, most, part.tiling.chunk, w);
    for (int64_t at = 0; at < n && !Stopped(w); at += kAtOnce) {
      const int64_t here = Least(kAtOnce, n - at);
      float* const some = row + at;
      char* const out = to + at * softmax.to->size;
      Divide(some, here, sum, softmax.quantise == nullptr ? reinterpret_cast<float*>(out) : some);
      if (softmax.quantise != nullptr)
        softmax.quantise->fn({out, some, some, some}, *softmax.quantise, static_cast<int>(here));
    }
    Advance(nest, 0, nest.first[1], pos);
  }
}

}  // namespace rondo::host::RONDO_ISA
