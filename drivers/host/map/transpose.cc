// Bytes in another order than the numbers that they are computed from (TransposeProgram): computed channel by
// channel for some points, then transposed in squares of 16 while they are stored.
#include "drivers/host/map/transpose.h"

#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {
namespace {

constexpr int kSquare = 16;
typedef uint8_t Bytes __attribute__((vector_size(kSquare), aligned(1), may_alias));

// Transposes [channel][point] to [point][channel].
inline __attribute__((always_inline)) void TransposeSquare(const uint8_t* from, Bytes (&square)[kSquare]) {
#pragma GCC unroll 16
  for (int i = 0; i < kSquare; ++i) square[i] = *reinterpret_cast<const Bytes*>(from + i * kTransposedPoints);
#pragma GCC unroll 4
  for (int round = 0; round < 4; ++round) {
    Bytes next[kSquare];
#pragma GCC unroll 8
    for (int i = 0; i < kSquare / 2; ++i) {
      const Bytes a = square[i], b = square[i + kSquare / 2];
      next[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      next[2 * i + 1] =
          __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
#pragma GCC unroll 16
    for (int i = 0; i < kSquare; ++i) square[i] = next[i];
  }
}

template <int kBytes>
inline __attribute__((always_inline)) void StoreEnds(const char* from, int n, char* to) {
  std::memcpy(to, from, kBytes);
  std::memcpy(to + n - kBytes, from + n - kBytes, kBytes);
}

// Stores the first n bytes of 16.
inline __attribute__((always_inline)) void StoreFirst(Bytes all, int n, uint8_t* to) {
  if (n == kSquare) {
    *reinterpret_cast<Bytes*>(to) = all;
    return;
  }
  char from[kSquare];
  std::memcpy(from, &all, kSquare);
  char* const out = reinterpret_cast<char*>(to);
  if (n >= 8) return StoreEnds<8>(from, n, out);
  if (n >= 4) return StoreEnds<4>(from, n, out);
  for (int i = 0; i < n; ++i) out[i] = from[i];
}

// Stores points of up to 4 channels as words; each next word overwrites the end of the one before.
template <int kChannels>
void StoreWords(const uint8_t* from, int points, uint8_t* to) {
  uint32_t words[kTransposedPoints];
#pragma GCC ivdep
  for (int p = 0; p < kTransposedPoints; ++p) {
    uint32_t word = from[p];
#pragma GCC unroll 4
    for (int c = 1; c < kChannels; ++c)
      word |= static_cast<uint32_t>(from[c * kTransposedPoints + p]) << (8 * c);
    words[p] = word;
  }
  for (int p = 0; p + 1 < points; ++p) std::memcpy(to + p * kChannels, &words[p], sizeof(words[p]));
  std::memcpy(to + (points - 1) * kChannels, &words[points - 1], kChannels);
}

void Store(const uint8_t* from, int channels, int points, uint8_t* to, int64_t step) {
  if (step == channels) {
    switch (channels) {
      case 2: return StoreWords<2>(from, points, to);
      case 3: return StoreWords<3>(from, points, to);
      case 4: return StoreWords<4>(from, points, to);
      default: break;
    }
  }
  for (int p = 0; p < points; p += kSquare) {
    const int rows = Least(kSquare, points - p);
    for (int c = 0; c < channels; c += kSquare) {
      // Repeats channels at the end, so that there are never fewer.
      const int at = channels >= kSquare ? Least(c, channels - kSquare) : 0;
      const int count = Least(kSquare, channels);
      Bytes square[kSquare];
      TransposeSquare(from + at * kTransposedPoints + p, square);
      uint8_t* const out = to + p * step + at;
      if (count == kSquare && rows == kSquare) {
#pragma GCC unroll 16
        for (int i = 0; i < kSquare; ++i) *reinterpret_cast<Bytes*>(out + i * step) = square[i];
        continue;
      }
      for (int i = 0; i < rows; ++i) StoreFirst(square[i], count, out + i * step);
    }
  }
}

// Moves pos to the next channel in memory order; after the last, to the first.
void NextChannel(const Nest& nest, const TransposeProgram& transpose, int64_t* pos) {
  for (int i = 0; i < transpose.num_channel_loops; ++i) {
    const int d = transpose.channel_loop[i];
    if (++pos[d] < nest.extent[d]) return;
    pos[d] = 0;
  }
}

// Computes the bytes of some points of one channel.
class Channel {
 public:
  Channel(const TransposeProgram& transpose, TapeFrame& frame)
      : made_(transpose.program),
        frame_(frame),
        w_(*frame.worker),
        register_(made_.body[--made_.num_body].a) {
    uint32_t at = made_.num_same;
    while (at < made_.num_body && made_.body[at].kind == InstKind::kScalar) ++at;
    if (at + 2 != made_.num_body) return;
    const Inst &load = made_.body[at], &op = made_.body[at + 1];
    if (load.kind != InstKind::kLoad || !load.direct || !load.access->plain || op.kind != InstKind::kOp ||
        !op.exact || op.a != load.out || op.b == load.out || op.c == load.out)
      return;
    // A single operation reads floats directly; its other operand stays loaded from here on.
    constexpr int64_t kStart[kMaxNest] = {};
    made_.num_body = at;
    RunTape(made_, frame_, kStart, 1);
    floats_ = load.access;
    op_ = &op;
  }
  void Make(const int64_t* pos, int n, uint8_t* to) {
    if (op_ != nullptr) {
      const char* const from = Pointer(*floats_, w_, BaseOf(*floats_, pos));
      op_->fn({to, from, RegisterOf(made_, w_, op_->b), RegisterOf(made_, w_, op_->c)}, *op_, n);
      return;
    }
    RunTape(made_, frame_, pos, n);
    std::memcpy(to, RegisterOf(made_, w_, register_), static_cast<size_t>(n));
  }

 private:
  Program made_;  // without the store
  TapeFrame& frame_;
  Worker& w_;
  const uint32_t register_;
  const Access* floats_ = nullptr;
  const Inst* op_ = nullptr;
};

}  // namespace

void RunTranspose(const PartProgram& part, const TransposeProgram& transpose, TapeFrame& frame, int64_t share,
                  int64_t end, int64_t shares) {
  const Nest& nest = part.nest;
  Worker& w = *frame.worker;
  const Access& to = *transpose.program.body[transpose.program.num_body - 1].access;
  uint8_t* const bytes = reinterpret_cast<uint8_t*>(w.scratch + transpose.bytes_at);
  const int64_t points = nest.extent[transpose.points],
                blocks = (points + transpose.at_once - 1) / transpose.at_once;
  const int64_t groups = (transpose.channels + kTransposedChannels - 1) / kTransposedChannels;
  const int64_t in_group = (transpose.channels + groups - 1) / groups;
  const auto unit_of = [&](int64_t of_shares) {
    return of_shares * (transpose.units / shares) + of_shares * (transpose.units % shares) / shares;
  };
  Channel channel(transpose, frame);
  int64_t pos[kMaxNest] = {};
  for (int64_t unit = unit_of(share), last = unit_of(end); unit < last && !Stopped(w); ++unit) {
    int64_t outer = unit / blocks;
    for (int i = 0; i < transpose.num_outer_loops; ++i) {
      const int d = transpose.outer_loop[i];
      pos[d] = outer % nest.extent[d];
      outer /= nest.extent[d];
    }
    pos[transpose.points] = unit % blocks * transpose.at_once;
    const int n = static_cast<int>(Least(transpose.at_once, points - pos[transpose.points]));
    uint8_t* const out = reinterpret_cast<uint8_t*>(Pointer(to, w, BaseOf(to, pos)));
    for (int64_t first = 0; first < transpose.channels && !Stopped(w); first += in_group) {
      const int64_t count = Least(in_group, transpose.channels - first);
      for (int64_t c = 0; c < count; ++c) {
        channel.Make(pos, n, bytes + c * kTransposedPoints);
        NextChannel(nest, transpose, pos);
      }
      Store(bytes, static_cast<int>(count), n, out + first, transpose.step);
    }
  }
}

}  // namespace rondo::host::RONDO_ISA
