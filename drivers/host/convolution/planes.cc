// Depthwise convolutions and pools with one plane for each channel (Variant::kPlanes): see PlanesProgram.
#include "drivers/host/convolution/convolution_program.h"
#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {
namespace {

// NaN if either is, as TapeOp::kMax.
inline __attribute__((always_inline)) Vector Greatest(Vector acc, Vector x) {
  return (x > acc) | (x != x) ? x : acc;
}

struct Taps {
  const float* from;    // of the first point
  const int64_t* at;    // of each tap
  const float* weight;  // of each tap
  int64_t count;
};

// kVectors * kWidth neighbouring points.
template <Combine kCombine, int kVectors>
void TakePoints(const Taps& taps, float* to) {
  Vector sum[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v)
    sum[v] = Vector{} + (kCombine == Combine::kMax ? -__builtin_inff() : 0.0f);
  for (int64_t t = 0; t < taps.count; ++t) {
    const float* from = taps.from + taps.at[t];
    const Vector weight = Vector{} + (kCombine == Combine::kProduct ? taps.weight[t] : 1.0f);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const Vector x = *reinterpret_cast<const Vector*>(from + v * kWidth);
      if constexpr (kCombine == Combine::kProduct) {
        sum[v] += x * weight;
      } else if constexpr (kCombine == Combine::kMax) {
        sum[v] = Greatest(sum[v], x);
      } else {
        sum[v] += x;
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) *reinterpret_cast<Vector*>(to + v * kWidth) = sum[v];
}

constexpr int kMostVectors = 8;
using TakeFn = void (*)(const Taps& taps, float* to);
struct Takers {
  TakeFn of[kMostVectors + 1];  // by vectors
};
template <Combine kCombine>
constexpr Takers TakersOf() {
  return {{nullptr, TakePoints<kCombine, 1>, TakePoints<kCombine, 2>, TakePoints<kCombine, 3>,
           TakePoints<kCombine, 4>, TakePoints<kCombine, 5>, TakePoints<kCombine, 6>, TakePoints<kCombine, 7>,
           TakePoints<kCombine, 8>}};
}
constexpr Takers kTakers[] = {TakersOf<Combine::kProduct>(), TakersOf<Combine::kMax>(),
                              TakersOf<Combine::kSum>(), TakersOf<Combine::kSum>()};

// Copies `count` floats alternately to `even` and `odd`.
void Split(const float* from, int64_t count, float* even, float* odd) {
  int64_t i = 0;
#if defined(__AVX512F__)
  const __m512i evens = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  const __m512i odds = _mm512_add_epi32(evens, _mm512_set1_epi32(1));
  for (; i + 2 * kWidth <= count; i += 2 * kWidth) {
    const __m512 low = _mm512_loadu_ps(from + i), high = _mm512_loadu_ps(from + i + kWidth);
    _mm512_storeu_ps(even + i / 2, _mm512_permutex2var_ps(low, evens, high));
    _mm512_storeu_ps(odd + i / 2, _mm512_permutex2var_ps(low, odds, high));
  }
  const uint64_t rest = (uint64_t{1} << (count - i)) - 1;
  const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(rest), from + i);
  const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(rest >> kWidth), from + i + kWidth);
  const auto first = [](int64_t lanes) { return static_cast<__mmask16>((1u << lanes) - 1); };
  _mm512_mask_storeu_ps(even + i / 2, first((count - i + 1) / 2), _mm512_permutex2var_ps(low, evens, high));
  _mm512_mask_storeu_ps(odd + i / 2, first((count - i) / 2), _mm512_permutex2var_ps(low, odds, high));
#else
  for (; i + 2 <= count; i += 2) {
    even[i / 2] = from[i];
    odd[i / 2] = from[i + 1];
  }
  if (i < count) even[i / 2] = from[i];
#endif
}

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Planes {
 public:
  Planes(const PlanesPart& part, Worker& w)
      : part_(part),
        planes_(part.planes),
        row_(planes_.axis[kMaxPlaneAxes - 1]),
        w_(w),
        plane_(reinterpret_cast<float*>(w.scratch + part.plane_at)),
        results_(reinterpret_cast<float*>(w.scratch + part.acc_at)),
        weight_(reinterpret_cast<float*>(w.scratch + part.weight_at)),
        counts_(reinterpret_cast<float*>(w.scratch + part.count_at)) {
    const float absent = part.combine == Combine::kMax ? -__builtin_inff() : 0.0f;
    for (int64_t i = 0; i < planes_.phases * planes_.phase; ++i) plane_[i] = absent;
    if (part.combine == Combine::kMean) Count();
  }

  // Computes the plane at pos; its results go to results(), point by point.
  void Run(const int64_t* pos) {
    const Access& input = *part_.rhs[0].by_n;
    Copy(reinterpret_cast<const float*>(Pointer(input, w_, BaseOf(input, pos))));
    if (part_.weight != nullptr) {
      const float* weight =
          reinterpret_cast<const float*>(Pointer(*part_.weight, w_, BaseOf(*part_.weight, pos)));
      for (int64_t t = 0; t < planes_.taps; ++t) weight_[t] = weight[planes_.tap_weight[t]];
    }
    Taps taps{plane_, planes_.tap_at, weight_, planes_.taps};
    const int64_t vectors = CeilDiv(planes_.flat, kWidth), blocks = CeilDiv(vectors, kMostVectors);
    const Takers& takers = kTakers[static_cast<int>(part_.combine)];
    int64_t vector = 0;
    for (int64_t i = 0; i < blocks && !Stopped(w_); ++i) {
      const int64_t count = CeilDiv(vectors - vector, blocks - i);
      taps.from = plane_ + vector * kWidth;
      takers.of[count](taps, results_ + vector * kWidth);
      vector += count;
    }
    if (planes_.flat != planes_.points) Close();
    if (part_.combine != Combine::kMean) return;
    for (int64_t i = 0; i < planes_.points; ++i) results_[i] /= counts_[i];
  }
  const float* results() const { return results_; }

 private:
  // Copies the elements inside the input to their places.
  void Copy(const float* input) const {
    const PlaneAxis &deep = planes_.axis[0], &high = planes_.axis[1];
    for (int64_t z = deep.first; z < deep.last; ++z) {
      int64_t phase = high.first % high.step, at = high.first / high.step;
      float* const to = plane_ + z % deep.step * deep.phase_floats + z / deep.step * deep.pitch_floats;
      for (int64_t y = high.first; y < high.last && !Stopped(w_); ++y) {
        CopyRow(input + z * deep.stride + y * high.stride + row_.first * row_.stride,
                to + phase * high.phase_floats + at * high.pitch_floats);
        if (++phase < high.step) continue;
        phase = 0;
        ++at;
      }
    }
  }

  void CopyRow(const float* from, float* to) const {
    const int64_t count = row_.last - row_.first;
    if (row_.stride == 1 && row_.step == 1) return CopyFloats(from, count, to + row_.first);
    const auto place = [&](int64_t c) { return to + c % row_.step * row_.phase_floats + c / row_.step; };
    if (row_.stride == 1 && row_.step == 2)
      return Split(from, count, place(row_.first), place(row_.first + 1));
    for (int64_t i = 0; i < Least(row_.step, count); ++i) {
      float* out = place(row_.first + i);
      const float* in = from + i * row_.stride;
      const int64_t some = CeilDiv(count - i, row_.step), step = row_.step * row_.stride;
      for (int64_t x = 0; x < some; ++x) out[x] = in[x * step];
    }
  }

  // Removes the gaps between the rows of the results.
  void Close() const {
    const PlaneAxis &deep = planes_.axis[0], &high = planes_.axis[1];
    float* to = results_;
    for (int64_t z = 0; z < deep.points; ++z) {
      for (int64_t y = 0; y < high.points; ++y, to += row_.points) {
        CopyFloats(results_ + z * deep.pitch_floats + y * high.pitch_floats, row_.points, to);
      }
    }
  }

  // Counts the taps of each point that are inside; 1 if there are none.
  void Count() const {
    for (int64_t i = 0; i < planes_.points && !Stopped(w_); ++i) {
      int64_t rest = i, count = 1;
      for (int s = kMaxPlaneAxes - 1; s >= 0; --s) {
        const PlaneAxis& axis = planes_.axis[s];
        int64_t inside = 0, c = rest % axis.points * axis.step;
        rest /= axis.points;
        for (int64_t k = 0; k < axis.taps; ++k, c += axis.dilation)
          inside += c >= axis.first && c < axis.last;
        count *= inside;
      }
      counts_[i] = static_cast<float>(count == 0 ? 1 : count);
    }
  }

  const PlanesPart& part_;
  const PlanesProgram& planes_;
  const PlaneAxis& row_;  // the last axis
  Worker& w_;
  float* const plane_;
  float* const results_;
  float* const weight_;
  float* const counts_;
};

}  // namespace

void RunPlanes(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const PlanesPart& part = static_cast<const PlanesPart&>(base);
  const Nest& nest = part.nest;
  BeginTape(part.epilogue, w);
  Planes planes(part, w);
  TapeFrame frame;
  frame.worker = &w;
  int64_t pos[kMaxNest] = {};
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    Decode(nest, 0, nest.first[2], task, pos);
    for (int d = nest.first[2]; d < nest.first[3]; ++d) pos[d] = 0;
    planes.Run(pos);
    const float* results = planes.results();
    for (int64_t tile = 0; tile < part.tiling.tiles && !Stopped(w); ++tile) {
      const int n = DecodeTile(nest, part.tiling, tile, pos);
      frame.acc = reinterpret_cast<const char*>(results);
      RunTape(part.epilogue, frame, pos, n);
      results += n;
    }
  }
}

}  // namespace rondo::host::RONDO_ISA
