// Softmax of rows (SoftmaxProgram), a row at a time in a cache. Numbers are those of the tapes that it stands
// for: the same functions of the same floats, sums in the same order.
#include "drivers/host/exec/exec.h"
#include "drivers/host/exec/extremes.h"
#include "drivers/host/exec/math.h"
#include "drivers/host/exec/reduce_tile.h"

namespace rondo::host::RONDO_ISA {
namespace {

// (byte - zero) * scale of n bytes; the greatest. Both are finite.
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

// exp(x - most) in place of n numbers; their sum, tile by tile.
[[gnu::flatten]] float Exponentials(float* x, int64_t n, float most, int64_t tile) {
  double sum = 0;
  for (int64_t at = 0; at < n; at += tile, x += tile) {
    const int here = static_cast<int>(Least(tile, n - at));
#pragma GCC ivdep
    for (int i = 0; i < here; ++i) x[i] = ExpF(x[i] - most);
    sum += ReduceTile<TapeOp::kReduceSum>(x, here);
  }
  return static_cast<float>(sum);
}

void Divide(const float* x, int64_t n, float by, float* to) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = x[i] / by;
}

}  // namespace

void RunSoftmax(const PartProgram& part, Worker& w, int64_t first, int64_t last) {
  const Nest& nest = part.nest;
  const SoftmaxProgram& softmax = *part.softmax;
  const int64_t n = nest.points[1];
  float* const row = reinterpret_cast<float*>(w.scratch + part.kept_at);
  int64_t pos[kMaxNest] = {};
  Decode(nest, 0, nest.first[1], first, pos);
  for (int64_t r = first; r < last && !Stopped(w); ++r) {
    const char* const from = Pointer(*softmax.from, w, BaseOf(*softmax.from, pos));
    char* const to = Pointer(*softmax.to, w, BaseOf(*softmax.to, pos));
    const float most =
        softmax.from->dtype == DType::kF32 ? ReadFloats(reinterpret_cast<const float*>(from), n, row)
        : softmax.from->dtype == DType::kI8
            ? ReadBytes(reinterpret_cast<const int8_t*>(from), n, softmax.zero, softmax.scale, row)
            : ReadBytes(reinterpret_cast<const uint8_t*>(from), n, softmax.zero, softmax.scale, row);
    const float sum = Exponentials(row, n, most, part.tiling.chunk);
    if (softmax.quantise == nullptr) {
      Divide(row, n, sum, reinterpret_cast<float*>(to));
    } else {
      Divide(row, n, sum, row);
      softmax.quantise->fn({to, row, row, row}, *softmax.quantise, static_cast<int>(n));
    }
    Advance(nest, 0, nest.first[1], pos);
  }
}

}  // namespace rondo::host::RONDO_ISA
