// Depthwise convolutions and pools over contiguous channels. Lanes run along the channels; every point of the
// kernel (a tap) is a vector of the input times a vector of the weight. A few points whose taps are all
// present are computed together, so that they share each vector of the weight.
#include "drivers/host/convolution/convolution_program.h"
#include "drivers/host/convolution/taps.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/block_end.h"
#include "drivers/host/matmul/product.h"
#include "drivers/host/matmul/straight_epilogue.h"

namespace rondo::host::RONDO_ISA {
namespace {

// `count` floats, at most kWidth; the other lanes are 0.
template <bool kWhole>
inline __attribute__((always_inline)) Vector LoadSome(const float* from, int count) {
  if constexpr (kWhole) return *reinterpret_cast<const Vector*>(from);
#if defined(__AVX512F__)
  return reinterpret_cast<Vector>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << count) - 1), from));
#else
  Vector v = {};
  for (int i = 0; i < count; ++i) v[i] = from[i];
  return v;
#endif
}

// NaN if either is, as TapeOp::kMax.
inline __attribute__((always_inline)) Vector Greatest(Vector acc, Vector x) {
  return (x > acc) | (x != x) ? x : acc;
}

// One or a few points that have the same taps, `step` floats apart in the input.
struct Points {
  const float* input;
  int64_t step;
  const float* weight;
  const int64_t* input_at;   // of each tap
  const int64_t* weight_at;  // of each tap
  int64_t taps;
  float* acc;
  int64_t acc_row;
  const Ending* ending;  // null: sums go to acc
  int64_t row;           // of the tile
};

// Lanes [at, at + kVectors * kWidth) of kPoints points; with kWhole false one vector of `lanes` lanes.
template <Combine kCombine, int kPoints, int kVectors, bool kWhole>
inline __attribute__((always_inline)) void TakeTaps(const Points& p, int at, int lanes) {
  Vector sum[kPoints][kVectors];
  const float start = kCombine == Combine::kMax ? -__builtin_inff() : 0.0f;
#pragma GCC unroll 8
  for (int i = 0; i < kPoints; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[i][v] = Vector{} + start;
  }
  for (int64_t t = 0; t < p.taps; ++t) {
    const float* from = p.input + p.input_at[t] + at;
    Vector weight[kVectors];
    if constexpr (kCombine == Combine::kProduct) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        weight[v] = LoadSome<kWhole>(p.weight + p.weight_at[t] + at + v * kWidth, lanes);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kPoints; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Vector x = LoadSome<kWhole>(from + i * p.step + v * kWidth, lanes);
        if constexpr (kCombine == Combine::kProduct) {
          sum[i][v] += x * weight[v];
        } else if constexpr (kCombine == Combine::kMax) {
          sum[i][v] = Greatest(sum[i][v], x);
        } else {
          sum[i][v] += x;
        }
      }
    }
  }
  if (kWhole && p.ending != nullptr) return StoreEnded(*p.ending, p.row, at, sum);
#pragma GCC unroll 8
  for (int i = 0; i < kPoints; ++i) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Vector*>(p.acc + i * p.acc_row + at + v * kWidth) = sum[i][v];
    }
  }
}

#if defined(__AVX512F__)
constexpr int kPointsAtOnce = 6, kVectorsAtOnce = 3, kVectorsAlone = 4;
#else
constexpr int kPointsAtOnce = 4, kVectorsAtOnce = 2, kVectorsAlone = 4;
#endif

template <Combine kCombine, int kPoints>
void TakeLanes(const Points& p, int n) {
  constexpr int kVectors = kPoints == 1 ? kVectorsAlone : kVectorsAtOnce;
  int at = 0;
  for (; at + kVectors * kWidth <= n; at += kVectors * kWidth) {
    TakeTaps<kCombine, kPoints, kVectors, true>(p, at, kWidth);
  }
  for (; at + kWidth <= n; at += kWidth) TakeTaps<kCombine, kPoints, 1, true>(p, at, kWidth);
  if (at == n) return;
  TakeTaps<kCombine, kPoints, 1, false>(p, at, n - at);
  if (p.ending != nullptr) EndRows(*p.ending, p.row, kPoints, at, n - at, p.acc + at, p.acc_row);
}

using TakeFn = void (*)(const Points& p, int n);
struct Takers {
  TakeFn one, several;
};
template <Combine kCombine>
constexpr Takers TakersOf() {
  return {TakeLanes<kCombine, 1>, TakeLanes<kCombine, kPointsAtOnce>};
}
constexpr Takers kTakers[] = {TakersOf<Combine::kProduct>(), TakersOf<Combine::kMax>(),
                              TakersOf<Combine::kSum>(), TakersOf<Combine::kSum>()};

// Walks the points of group m over one tile of channels.
class Walk {
 public:
  Walk(const ChannelsPart& part, Worker& w)
      : part_(part),
        nest_(part.nest),
        w_(w),
        input_(*part.rhs[0].by_n),
        taps_(part.taps.count),
        guards_(part, part.taps),
        inner_(part.nest.first[2] - 1),
        takers_(kTakers[static_cast<int>(part.combine)]),
        input_at_(reinterpret_cast<int64_t*>(w.scratch + part.taps_at)),
        weight_at_(input_at_ + taps_) {
    points_.acc_row = part.acc_row;
    for (int64_t t = 0; t < taps_; ++t) last_tap_ = last_tap_ < part.taps.at[t] ? part.taps.at[t] : last_tap_;
    for (int i = 0; i < input_.num_loops; ++i) {
      if (input_.loop[i] == inner_) points_.step = input_.step[i];
      if (input_.loop[i] + 1 == inner_ && inner_ > nest_.first[1] && part.tiling.tiles == 1)
        line_ = input_.step[i];
    }
  }

  // Computes points [row, row + rows); pos is at a tile of n with k at 0.
  void Run(int64_t* pos, int64_t row, int64_t rows, int n) {
    const Ending ending(part_.end, w_, pos, row);
    points_.ending = part_.end.result != nullptr ? &ending : nullptr;
    Decode(nest_, nest_.first[1], nest_.first[2], row, pos);
    float* acc = reinterpret_cast<float*>(w_.scratch + part_.acc_at);
    for (int64_t r = 0; r < rows && !Stopped(w_);) {
      points_.input = reinterpret_cast<const float*>(Pointer(input_, w_, BaseOf(input_, pos)));
      if (part_.weight != nullptr) {
        points_.weight =
            reinterpret_cast<const float*>(Pointer(*part_.weight, w_, BaseOf(*part_.weight, pos)));
      }
      points_.acc = acc + r * part_.acc_row;
      points_.row = r;
      if (pos[inner_] == 0)
        ahead_.Set(points_.input + last_tap_, line_, nest_.extent[inner_] / kPointsAtOnce + 1);
      ahead_.Fetch();
      const int64_t left = Least(rows - r, nest_.extent[inner_] - pos[inner_]);
      const bool several = left >= kPointsAtOnce && guards_.All(pos, kPointsAtOnce);
      if (several || guards_.All(pos, 1)) {
        points_.input_at = part_.taps.at;
        points_.weight_at = part_.taps.weight;
        points_.taps = taps_;
      } else {
        FindTaps(pos);
      }
      (several ? takers_.several : takers_.one)(points_, n);
      const int count = several ? kPointsAtOnce : 1;
      if (part_.combine == Combine::kMean) Divide(count, n);
      r += count;
      pos[inner_] += count - 1;
      Advance(nest_, nest_.first[1], nest_.first[2], pos);
    }
  }

 private:
  void FindTaps(const int64_t* pos) {
    guards_.Place(pos);
    int64_t count = 0;
    for (int64_t t = 0; t < taps_; ++t) {
      input_at_[count] = part_.taps.at[t];
      weight_at_[count] = part_.taps.weight[t];
      count += guards_.Present(t);
    }
    points_.input_at = input_at_;
    points_.weight_at = weight_at_;
    points_.taps = count;
  }

  void Divide(int count, int n) const {
    const float taps = static_cast<float>(points_.taps);
    if (points_.taps == 0) return;
    for (int i = 0; i < count; ++i) {
      float* acc = points_.acc + i * points_.acc_row;
      for (int c = 0; c < n; ++c) acc[c] /= taps;
    }
  }

  const ChannelsPart& part_;
  const Nest& nest_;
  Worker& w_;
  const Access& input_;
  const int64_t taps_;
  TapGuards guards_;
  const int inner_;  // the innermost loop of group m
  const Takers takers_;
  int64_t* const input_at_;
  int64_t* const weight_at_;
  Points points_ = {};
  // The input of the next line of points: `line_` floats behind what this line reads. 0: not fetched.
  int64_t line_ = 0, last_tap_ = 0;
  InputAhead ahead_;
};

}  // namespace

void RunChannels(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const ChannelsPart& part = static_cast<const ChannelsPart&>(base);
  const Nest& nest = part.nest;
  const int64_t rows = nest.points[1], tiles = part.tiling.tiles;
  const int64_t blocks = (rows + part.block_rows - 1) / part.block_rows;
  BeginTape(part.epilogue, w);
  StraightEpilogue epilogue(part, w);
  Walk walk(part, w);
  int64_t pos[kMaxNest] = {};
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int64_t block = task / tiles;
    const int64_t row = block % blocks * part.block_rows;
    Decode(nest, 0, nest.first[1], block / blocks, pos);
    const int n = DecodeTile(nest, part.tiling, task % tiles, pos);
    const int64_t some = Least(part.block_rows, rows - row);
    for (int d = nest.first[1]; d < nest.first[2]; ++d) pos[d] = 0;
    walk.Run(pos, row, some, n);
    if (part.end.result == nullptr) epilogue.Run(pos, row, some, n);
  }
}

}  // namespace rondo::host::RONDO_ISA
