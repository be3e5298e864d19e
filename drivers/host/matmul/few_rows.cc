// Matmuls of at most kFewRows rows: every element of B is read once, directly from memory.
#include "drivers/host/exec/exec.h"
#include "drivers/host/matmul/blocks.h"
#include "drivers/host/matmul/matmul_program.h"
#include "drivers/host/matmul/product.h"

namespace rondo::host::RONDO_ISA {
namespace {

// A B without contiguous rows of n: dot products, lane by lane if lanes are not evenly spaced.
void DotLanes(const RhsProgram& rhs, const char* b, const float* a, int64_t a_row, int rows, int64_t k, int n,
              float* acc, bool add) {
  const Access& access = *rhs.by_n;
  if (access.lane.kind != LaneKind::kTable) {
    return Dots(a, a_row, rows, b, access.dtype, access.lane.stride, k, n, acc, kLanes, add);
  }
  for (int i = 0; i < n; ++i) {
    Dots(a, a_row, rows, b + static_cast<int64_t>(access.lane.table[i]) * access.size, access.dtype, 0, k, 1,
         acc + i, kLanes, add);
  }
}

// Multiplies all rows by the columns of tiles [first, last) of one outer point.
class Streamed {
 public:
  Streamed(const FewRowsPart& part, Worker& w, const float* a, int64_t a_row)
      : part_(part), w_(w), a_(a), a_row_(a_row), rows_(static_cast<int>(part.nest.points[1])) {}

  void Run(int64_t* pos, int64_t first, int64_t last) {
    const int64_t k = part_.nest.points[3];
    for (int j = 0; j < part_.num_rhs; ++j) {
      const RhsProgram& rhs = part_.rhs[j];
      // Walks a few rows of k at a time across all tiles, so that memory is read in long runs.
      const bool whole = rhs.k_unit || last - first == 1 || k * (last - first) * kLanes <= kCached;
      const int64_t step = whole ? Least(k, kLongest) : kRowsAtOnce;
      fetch_ = whole ? 8 * rhs.k_step : kLanes;
      for (int64_t at = 0; at < k && !Stopped(w_); at += step) {
        int n = DecodeTile(part_.nest, part_.tiling, first, pos);
        for (int64_t tile = first;;) {
          Tile(rhs, pos, j, tile - first, n, at, Least(step, k - at));
          if (++tile == last || Stopped(w_)) break;
          n = NextTile(part_.nest, part_.tiling, pos);
        }
      }
    }
  }
  float* Acc(int j, int64_t slot) const {
    return reinterpret_cast<float*>(w_.scratch + part_.acc_at + j * part_.acc_stride) + slot * rows_ * kLanes;
  }

 private:
  static constexpr int64_t kRowsAtOnce = 8;
  static constexpr int64_t kLongest = int64_t{1} << 16;  // between two checks of the stop signal
  static constexpr int64_t kCached = int64_t{1} << 18;   // elements that stay in a cache anyway

  void Tile(const RhsProgram& rhs, const int64_t* pos, int j, int64_t slot, int n, int64_t at,
            int64_t depth) {
    const Access& access = *rhs.by_n;
    const char* b = Pointer(access, w_, BaseOf(access, pos) + at * rhs.k_step);
    if (rhs.k_unit) {
      DotLanes(rhs, b, a_ + at, a_row_, rows_, depth, n, Acc(j, slot), at > 0);
    } else {
      WalkRows(a_ + at, a_row_, rows_, b, access.dtype, rhs.k_step, depth, n, Acc(j, slot), kLanes, at > 0,
               fetch_);
    }
  }

  const FewRowsPart& part_;
  Worker& w_;
  const float* a_;
  const int64_t a_row_;
  const int rows_;
  int64_t fetch_ = 0;  // elements ahead
};

}  // namespace

void RunFewRows(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const FewRowsPart& part = static_cast<const FewRowsPart&>(base);
  const Nest& nest = part.nest;
  const int64_t rows = nest.points[1], tiles = part.tiling.tiles;
  const bool direct = part.left.direct != nullptr && rows == 1;
  float* packed = reinterpret_cast<float*>(w.scratch + part.left.at);
  if (!direct) BeginTape(part.left.program, w);
  BeginTape(part.epilogue, w);
  int64_t pos[kMaxNest] = {};
  int64_t packed_outer = -1;
  for (int64_t task = first; task < last && !Stopped(w);) {
    const int64_t outer = task / tiles;
    Decode(nest, 0, nest.first[1], outer, pos);
    const float* a = packed;
    if (direct) {
      a = reinterpret_cast<const float*>(Pointer(*part.left.direct, w, BaseOf(*part.left.direct, pos)));
    } else if (packed_outer != outer) {
      PackLhs(nest, part.left, w, pos, 0, rows, packed, 0, part.left.row);
    }
    packed_outer = outer;
    for (int d = nest.first[1]; d < nest.first[2]; ++d) pos[d] = 0;
    for (int d = nest.first[3]; d < nest.first[4]; ++d) pos[d] = 0;
    const int64_t tile = task % tiles;
    const int64_t count = Least(Least(part.tiles_at_once, last - task), tiles - tile);
    Streamed streamed(part, w, a, part.left.row);
    streamed.Run(pos, tile, tile + count);
    int n = DecodeTile(nest, part.tiling, tile, pos);
    for (int64_t t = 0;;) {
      RunEpilogue(part, w, pos, 0, rows, n, t * rows);
      if (++t == count) break;
      n = NextTile(nest, part.tiling, pos);
    }
    task += count;
    for (int d = part.tiling.first; d < part.tiling.end; ++d) pos[d] = 0;
  }
}

}  // namespace rondo::host::RONDO_ISA
