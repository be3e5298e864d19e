#include "formats/plan/check/boxes.h"

namespace rondo::check {
namespace {

// The pieces of one box on a grid.
struct Pieces {
  int count = 0;
  bool overflow = false;
  GridBox boxes[kMaxPieces];
};

// Cuts `box` so that no digit from `digit` on exceeds its radix; carries go into the next digits.
void Cut(const Grid& grid, GridBox box, int digit, Pieces* out) {
  if (out->overflow) return;
  for (; digit < grid.digits - 1; ++digit) {
    const int64_t radix = grid.strides[digit + 1] / grid.strides[digit];
    const int64_t first = box.low[digit] / radix, last = box.high[digit] / radix;
    const int64_t low = box.low[digit] - first * radix, high = box.high[digit] - last * radix;
    if (first == last) {
      box.low[digit] = low;
      box.high[digit] = high;
      box.low[digit + 1] += first;
      box.high[digit + 1] += first;
      continue;
    }
    const struct {
      int64_t low, high, first_carry, last_carry;
    } cuts[] = {
        {low, radix - 1, first, first},
        {0, radix - 1, first + (low == 0 ? 0 : 1), last - (high == radix - 1 ? 0 : 1)},
        {0, high, last, last},
    };
    for (int i = 0; i < 3; ++i) {
      if (cuts[i].first_carry > cuts[i].last_carry) continue;
      if ((i == 0 && low == 0) || (i == 2 && high == radix - 1)) continue;  // whole: in the middle cut
      GridBox piece = box;
      piece.low[digit] = cuts[i].low;
      piece.high[digit] = cuts[i].high;
      piece.low[digit + 1] += cuts[i].first_carry;
      piece.high[digit + 1] += cuts[i].last_carry;
      Cut(grid, piece, digit + 1, out);
    }
    return;
  }
  if (out->count == kMaxPieces) {
    out->overflow = true;
  } else {
    out->boxes[out->count++] = box;
  }
}

void ToGrid(const Grid& grid, int64_t origin, const Box& box, Pieces* out) {
  GridBox whole;
  int64_t rest = box.base - origin;
  for (int d = grid.digits - 1; d >= 0; --d) {
    whole.low[d] = whole.high[d] = rest / grid.strides[d];
    rest %= grid.strides[d];
    for (int i = 0; i < box.rank; ++i) {
      if (box.dims[i].stride == grid.strides[d]) whole.high[d] += box.dims[i].extent - 1;
    }
  }
  Cut(grid, whole, 0, out);
}

bool Meet(const GridBox& a, const GridBox& b, int digits) {
  for (int d = 0; d < digits; ++d) {
    if (a.high[d] < b.low[d] || b.high[d] < a.low[d]) return false;
  }
  return true;
}

}  // namespace

Box DenseBox(int64_t base, int64_t end) {
  Box box;
  box.base = base;
  box.end = end;
  box.rank = 1;
  box.dims[0] = {1, end - base};
  return box;
}

Box StridedBox(int64_t base, int64_t element, const BoxDim* dims, int count) {
  // The strides in ascending order, all positive.
  constexpr int kMost = 32;
  BoxDim sorted[kMost];
  int used = 0;
  for (int i = 0; i < count; ++i) {
    BoxDim dim = dims[i];
    if (dim.extent <= 1 || dim.stride == 0) continue;
    if (dim.stride < 0) {
      base += dim.stride * (dim.extent - 1);
      dim.stride = -dim.stride;
    }
    int at = used++;
    for (; at > 0 && sorted[at - 1].stride > dim.stride; --at) sorted[at] = sorted[at - 1];
    sorted[at] = dim;
  }
  Box box = DenseBox(base, base + element);
  for (int i = 0; i < used; ++i) {
    const BoxDim& outer = sorted[i];
    BoxDim& inner = box.dims[box.rank - 1];
    box.end += outer.stride * (outer.extent - 1);
    // An outer loop that continues where the inner one ends, or earlier, only extends it.
    if (outer.stride % inner.stride == 0 && outer.stride / inner.stride <= inner.extent) {
      inner.extent += outer.stride / inner.stride * (outer.extent - 1);
    } else if (box.rank < kMaxBoxRank) {
      box.dims[box.rank++] = outer;
    } else {
      box.exact = false;
    }
  }
  return box;
}

Box Repeated(const Box& box, int64_t stride, int64_t times) {
  if (box.empty()) return box;
  BoxDim dims[kMaxBoxRank + 1];
  for (int i = 0; i < box.rank; ++i) dims[i] = box.dims[i];
  dims[box.rank] = {stride, times};
  Box all = StridedBox(box.base, 1, dims, box.rank + 1);
  if (box.exact) return all;
  all.end = all.base + (box.end - box.base) + (stride < 0 ? -stride : stride) * (times - 1);
  all.exact = false;
  return all;
}

bool Grid::Add(int64_t stride) {
  int at = 0;
  while (at < digits && strides[at] < stride) ++at;
  if (at < digits && strides[at] == stride) return true;
  if (digits == kMaxDigits || stride % strides[at - 1] != 0) return false;
  if (at < digits && strides[at] % stride != 0) return false;
  for (int k = digits++; k > at; --k) strides[k] = strides[k - 1];
  strides[at] = stride;
  return true;
}

bool Grid::Add(const Box& box) {
  bool all = true;
  for (int i = 0; i < box.rank; ++i) all &= Add(box.dims[i].stride);
  return all;
}

bool ForPartsOnGrid(const Grid& grid, const Box& box, Work& work, const Visit<Box>& visit) {
  for (int i = 1; i < box.rank; ++i) {
    if (grid.Has(box.dims[i].stride)) continue;
    Box part = box;
    const BoxDim dim = box.dims[i];
    for (int k = i + 1; k < box.rank; ++k) part.dims[k - 1] = box.dims[k];
    --part.rank;
    part.end -= dim.stride * (dim.extent - 1);
    for (int64_t n = 0; n < dim.extent; ++n, part = Shifted(part, dim.stride)) {
      if (!work.Spend(16) || !ForPartsOnGrid(grid, part, work, visit)) return false;
    }
    return true;
  }
  return visit(box);
}

bool MayShare(const Box& a, const Box& b, Work& work) {
  if (a.empty() || b.empty() || a.end <= b.base || b.end <= a.base) return false;
  if (!a.exact || !b.exact || (a.dense() && b.dense())) return true;
  Grid grid;
  if (!grid.Add(a) || !grid.Add(b)) return true;
  const int64_t origin = a.base < b.base ? a.base : b.base;
  Pieces of_a, of_b;
  ToGrid(grid, origin, a, &of_a);
  ToGrid(grid, origin, b, &of_b);
  if (of_a.overflow || of_b.overflow) return true;
  for (int i = 0; i < of_a.count; ++i) {
    if (!work.Spend(64 + static_cast<uint64_t>(of_b.count) * 4)) return true;
    for (int k = 0; k < of_b.count; ++k) {
      if (Meet(of_a.boxes[i], of_b.boxes[k], grid.digits)) return true;
    }
  }
  return false;
}

Remainder::Remainder(const Grid& grid, int64_t origin, const Box& box, Work& work)
    : grid_(grid), origin_(origin), work_(work) {
  Pieces pieces;
  ToGrid(grid, origin, box, &pieces);
  gave_up_ = pieces.overflow;
  for (; count_ < pieces.count; ++count_) pieces_[count_] = pieces.boxes[count_];
}

void Remainder::Subtract(const Box& box) {
  if (gave_up_ || empty()) return;
  Pieces pieces;
  ToGrid(grid_, origin_, box, &pieces);
  gave_up_ = pieces.overflow || !work_.Spend(64 + static_cast<uint64_t>(pieces.count) * 16);
  for (int i = 0; i < pieces.count && !gave_up_; ++i) SubtractPiece(pieces.boxes[i]);
}

// Replaces each remaining piece that meets `piece` by its parts outside: one slab per digit and side.
void Remainder::SubtractPiece(const GridBox& piece) {
  gave_up_ = !work_.Spend(static_cast<uint64_t>(count_) * 4);
  for (int i = count_; i-- > 0 && !gave_up_;) {
    if (!Meet(pieces_[i], piece, grid_.digits)) continue;
    GridBox rest = pieces_[i];
    pieces_[i] = pieces_[--count_];
    for (int d = 0; d < grid_.digits; ++d) {
      for (bool below : {true, false}) {
        const bool outside = below ? rest.low[d] < piece.low[d] : rest.high[d] > piece.high[d];
        if (!outside) continue;
        if (count_ == kMaxPieces) {
          gave_up_ = true;
          return;
        }
        GridBox& slab = pieces_[count_++] = rest;
        (below ? slab.high[d] : slab.low[d]) = below ? piece.low[d] - 1 : piece.high[d] + 1;
        (below ? rest.low[d] : rest.high[d]) = below ? piece.low[d] : piece.high[d];
      }
    }
    if (!work_.Spend(64)) gave_up_ = true;
  }
}

int64_t Remainder::FirstByte() const {
  int64_t address = origin_;
  for (int d = 0; d < grid_.digits; ++d) address += pieces_[0].low[d] * grid_.strides[d];
  return address;
}

}  // namespace rondo::check
