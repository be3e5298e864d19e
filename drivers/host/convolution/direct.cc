// Convolutions with an unpacked input (Variant::kDirect). With few output channels, packing it, as the packed
// matmul does, costs about as much as the multiplications; with many, it still costs more than it saves where
// the weights lie in panels. So every point has a list of its taps' addresses, made once for all groups, and
// register blocks of points by output channels read the input through it. An absent tap points to a row of
// zeros. After M. Dukhan, "The Indirect Convolution Algorithm" (2019).
#include "drivers/host/convolution/convolution_program.h"
#include "drivers/host/convolution/taps.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/block_end.h"
#include "drivers/host/matmul/blocks.h"
#include "drivers/host/matmul/product.h"
#include "drivers/host/matmul/straight_epilogue.h"

namespace rondo::host::RONDO_ISA {
namespace {

// What the register blocks of one group share.
struct Block {
  const float* const* at;  // [point][tap]: the first input channel of group 0
  int64_t shift;           // floats from there to this group's
  const float* weight;     // [tap][channel][vectors]
  int64_t taps;
  int64_t run, step;  // input channels of a tap, and floats from one to the next
  float* acc;
  int64_t acc_row;
  const Ending* ending;  // null: sums go to acc
  int64_t row, column;   // of the tile
};

template <int kPoints, int kVectors>
void TakeBlock(const Block& b) {
  Vector sum[kPoints][kVectors];
#pragma GCC unroll 16
  for (int p = 0; p < kPoints; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[p][v] = Vector{};
  }
  const float* weight = b.weight;
  for (int64_t t = 0; t < b.taps; ++t) {
    const float* from[kPoints];
#pragma GCC unroll 16
    for (int p = 0; p < kPoints; ++p) from[p] = b.at[p * b.taps + t] + b.shift;
    int64_t at = 0;
    for (int64_t c = 0; c < b.run; ++c, at += b.step) {
      Vector w[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) w[v] = *reinterpret_cast<const Vector*>(weight + v * kWidth);
#pragma GCC unroll 16
      for (int p = 0; p < kPoints; ++p) {
        const float x = from[p][at];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[p][v] += w[v] * x;
      }
      weight += kVectors * kWidth;
    }
  }
  if (b.ending != nullptr) return StoreEnded(*b.ending, b.row, b.column, sum);
#pragma GCC unroll 16
  for (int p = 0; p < kPoints; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Vector*>(b.acc + p * b.acc_row + v * kWidth) = sum[p][v];
    }
  }
}

// Points of a block: as many as have their addresses in general registers and their sums in vector registers.
#if defined(RONDO_SMALL_BLOCKS)
constexpr int kPointsAtOnce = 2;
#elif defined(__AVX512F__)
constexpr int kPointsAtOnce = 12;
#elif defined(__AVX2__)
constexpr int kPointsAtOnce = 6;
#else
constexpr int kPointsAtOnce = 4;
#endif

using TakeFn = void (*)(const Block& block);
template <int kPoints, int kVectors>
constexpr TakeFn TakeOf() {
  if constexpr (kPoints <= kPointsAtOnce) {
    return TakeBlock<kPoints, kVectors>;
  } else {
    return nullptr;
  }
}
// By vectors, then by points.
#define RONDO_BLOCKS(v)                                                                                      \
  {                                                                                                          \
    nullptr, TakeOf<1, v>(), TakeOf<2, v>(), TakeOf<3, v>(), TakeOf<4, v>(), TakeOf<5, v>(), TakeOf<6, v>(), \
        TakeOf<7, v>(), TakeOf<8, v>(), TakeOf<9, v>(), TakeOf<10, v>(), TakeOf<11, v>(), TakeOf<12, v>()    \
  }
constexpr TakeFn kTake[kBlockVectors][13] = {RONDO_BLOCKS(1), RONDO_BLOCKS(2)};
#undef RONDO_BLOCKS

class Direct {
 public:
  Direct(const DirectPart& part, Worker& w)
      : part_(part),
        nest_(part.nest),
        w_(w),
        input_(*part.rhs[0].by_n),
        weight_(*part.weight),
        guards_(part, part.taps),
        inner_(part.nest.first[2] - 1),
        at_(reinterpret_cast<const float**>(w.scratch + part.taps_at)),
        zeros_(reinterpret_cast<float*>(w.scratch + part.zeros_at)),
        packed_(reinterpret_cast<float*>(w.scratch + part.weights_at)) {
    for (int i = 0; i < input_.num_loops; ++i) {
      if (input_.loop[i] == inner_) step_ = input_.step[i];
    }
    if (part.zeros > 0) PutZeros();
  }

  // Finds the addresses of the taps of points [row, row + rows) of group m; pos is at group 0.
  void FindTaps(int64_t* pos, int64_t row, int64_t rows) {
    Decode(nest_, nest_.first[1], nest_.first[2], row, pos);
    const float** to = at_;
    for (int64_t r = 0; r < rows;) {
      const float* from = reinterpret_cast<const float*>(Pointer(input_, w_, BaseOf(input_, pos)));
      int64_t count = guards_.Whole(pos, Least(rows - r, nest_.extent[inner_] - pos[inner_]));
      for (int64_t i = 0; i < count; ++i, from += step_, to += part_.taps.count) {
        for (int64_t t = 0; t < part_.taps.count; ++t) to[t] = from + part_.taps.at[t];
      }
      if (count == 0) {
        guards_.Place(pos);
        for (int64_t t = 0; t < part_.taps.count; ++t)
          *to++ = guards_.Present(t) ? from + part_.taps.at[t] : zeros_;
        count = 1;
      }
      r += count;
      pos[inner_] += count - 1;
      Advance(nest_, nest_.first[1], nest_.first[2], pos);
    }
    for (int d = nest_.first[1]; d < nest_.first[2]; ++d) pos[d] = 0;
    first_ = BaseOf(input_, pos);
  }

  // Fetches the input of the next `rows` points, of all groups, while those from `row` are computed.
  void FetchNext(int64_t row, int64_t rows) {
    const int64_t blocks = (rows + kPointsAtOnce - 1) / kPointsAtOnce;
    const int64_t panels = (nest_.points[2] + kBlockColumns - 1) / kBlockColumns;
    const int64_t from = FirstOf(row + rows), end = FirstOf(Least(row + 2 * rows, nest_.points[1] - 1));
    ahead_.Set(reinterpret_cast<const float*>(Pointer(input_, w_, from + part_.last_tap)), end - from,
               nest_.points[0] * blocks * panels);
  }

  // Computes the sums of these points over n output channels of the group at pos.
  void Run(const int64_t* pos, int64_t rows, int n, const Ending& ending) {
    const bool ends = part_.end.result != nullptr;
    Block block;
    block.shift = BaseOf(input_, pos) - first_;
    block.taps = part_.taps.count;
    block.run = part_.run;
    block.step = part_.run_step;
    block.acc_row = part_.acc_row;
    const float* const weight = reinterpret_cast<const float*>(Pointer(weight_, w_, BaseOf(weight_, pos)));
    float* const acc = reinterpret_cast<float*>(w_.scratch + part_.acc_at);
    const int64_t blocks = (rows + kPointsAtOnce - 1) / kPointsAtOnce;
    NextPanels next;
    for (int j = 0; j < n && !Stopped(w_); j += kBlockColumns) {
      const int vectors = n - j <= kWidth ? 1 : 2;
      const int some = Least(n - j, kBlockColumns);
      if (!part_.packs && vectors * kWidth == kStoredColumns) {
        block.weight = At(weight, j);
        next = {block.weight + part_.stored, kStoredColumns};
      } else {
        for (int from = 0; from < some; from += kStoredColumns)
          Pack(At(weight, j + from), Least(some - from, kStoredColumns), vectors * kWidth, packed_ + from);
        block.weight = packed_;
      }
      block.column = j;
      block.ending = ends && some % kWidth == 0 ? &ending : nullptr;
      int64_t row = 0;
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t count = (rows - row + (blocks - i) - 1) / (blocks - i);
        block.at = at_ + row * part_.taps.count;
        block.acc = acc + row * part_.acc_row + j;
        block.row = row;
        ahead_.Fetch();
        next.Fetch((part_.stored / kStoredColumns + blocks - 1) / blocks);
        if (block.ending != nullptr) FetchEnd(ending, row + count, Least(count, rows - row - count), j);
        kTake[vectors - 1][count](block);
        row += count;
      }
      if (ends && block.ending == nullptr) EndRows(ending, 0, rows, j, some, acc + j, part_.acc_row);
    }
  }

 private:
  // The input element of a point of group 0.
  int64_t FirstOf(int64_t row) const {
    int64_t pos[kMaxNest] = {};
    Decode(nest_, nest_.first[1], nest_.first[2], row, pos);
    return BaseOf(input_, pos);
  }

  // Sets the zeros that absent taps read, for the channels of any group.
  void PutZeros() {
    int64_t pos[kMaxNest] = {};
    const int64_t first = BaseOf(input_, pos);
    for (int64_t g = 0; g < nest_.points[0] && !Stopped(w_); ++g) {
      float* const zeros = zeros_ + BaseOf(input_, pos) - first;
      for (int64_t c = 0; c < part_.run; ++c) zeros[c * part_.run_step] = 0;
      Advance(nest_, 0, nest_.first[1], pos);
    }
  }

  // The weights of output channel j.
  const float* At(const float* weight, int j) const {
    return part_.stored == 0 ? weight + j : weight + j / kStoredColumns * part_.stored + j % kStoredColumns;
  }

  // Packs the weights of n output channels, and pads rows, `row` floats apart, with zeros to whole vectors.
  void Pack(const float* weight, int n, int row, float* to) {
    const int whole = (n + kWidth - 1) / kWidth * kWidth;
    for (int64_t t = 0; t < part_.taps.count; ++t) {
      const float* from = weight + part_.taps.weight[t];
      for (int64_t c = 0; c < part_.run; ++c, to += row, from += part_.run_weight_step) {
        if (n < whole) *reinterpret_cast<Vector*>(to + whole - kWidth) = Vector{};
        CopyFloats(from, n, to);
      }
    }
  }

  const DirectPart& part_;
  const Nest& nest_;
  Worker& w_;
  const Access& input_;
  const Access& weight_;
  TapGuards guards_;
  const int inner_;         // the innermost loop of group m
  int64_t step_ = 0;        // floats of the input from point to point along it
  const float** const at_;  // [point][tap]
  float* const zeros_;
  float* const packed_;
  int64_t first_ = 0;  // the input element of the first point of group 0
  InputAhead ahead_;
};

}  // namespace

void RunDirect(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const DirectPart& part = static_cast<const DirectPart&>(base);
  const Nest& nest = part.nest;
  const int64_t groups = nest.points[0], rows = nest.points[1], tiles = part.tiling.tiles;
  BeginTape(part.epilogue, w);
  StraightEpilogue epilogue(part, w);
  Direct direct(part, w);
  int64_t pos[kMaxNest] = {};
  int64_t found = -1;
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int64_t block = task / (groups * tiles), row = block * part.block_rows;
    const int64_t some = Least(part.block_rows, rows - row);
    if (block != found) {
      Decode(nest, 0, nest.first[1], 0, pos);
      direct.FindTaps(pos, row, some);
      if (row + some < rows) direct.FetchNext(row, some);
    }
    found = block;
    Decode(nest, 0, nest.first[1], task / tiles % groups, pos);
    for (int d = nest.first[1]; d < nest.first[2]; ++d) pos[d] = 0;
    const int n = DecodeTile(nest, part.tiling, task % tiles, pos);
    direct.Run(pos, some, n, Ending(part.end, w, pos, row));
    if (part.end.result == nullptr) epilogue.Run(pos, row, some, n);
  }
}

}  // namespace rondo::host::RONDO_ISA
