// Greatest bytes of windows over channels that lie side by side (Path::kBytePool), written as they are.
#include "drivers/host/exec/exec.h"
#include "drivers/host/exec/taps.h"

namespace rondo::host::RONDO_ISA {
namespace {

template <typename T>
void TakeGreatest(const T* from, int n, T* greatest) {
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) greatest[i] = from[i] > greatest[i] ? from[i] : greatest[i];
}

// Rows [row, row + rows) of group m over the n channels of the tile at pos.
template <typename T>
void Pool(const PartProgram& part, Worker& w, TapGuards& guards, int64_t* pos, int64_t row, int64_t rows,
          int n) {
  const Nest& nest = part.nest;
  const Access& input = *part.rhs[0].by_n;
  Decode(nest, nest.first[1], nest.first[2], row, pos);
  for (int64_t r = 0; r < rows && !Stopped(w); ++r) {
    const T* const from = reinterpret_cast<const T*>(Pointer(input, w, BaseOf(input, pos)));
    const bool all = guards.All(pos, 1);
    if (!all) guards.Place(pos);
    T greatest[kLanes] = {};
    bool any = false;
    for (int64_t t = 0; t < part.taps; ++t) {
      if (!all && !guards.Present(t)) continue;
      if (any) {
        TakeGreatest(from + part.tap_at[t], n, greatest);
      } else {
        std::memcpy(greatest, from + part.tap_at[t], static_cast<size_t>(n));
      }
      any = true;
    }
    std::memcpy(Pointer(*part.out, w, BaseOf(*part.out, pos)), greatest, static_cast<size_t>(n));
    Advance(nest, nest.first[1], nest.first[2], pos);
  }
}

}  // namespace

void RunBytePool(const PartProgram& part, Worker& w, int64_t first, int64_t last) {
  const Nest& nest = part.nest;
  const int64_t rows = nest.points[1], tiles = part.tiling.tiles;
  const int64_t blocks = (rows + part.block_rows - 1) / part.block_rows;
  const bool is_signed = part.rhs[0].by_n->dtype == DType::kI8;
  TapGuards guards(part);
  int64_t pos[kMaxNest] = {};
  for (int64_t task = first; task < last && !Stopped(w); ++task) {
    const int64_t block = task / tiles, row = block % blocks * part.block_rows;
    Decode(nest, 0, nest.first[1], block / blocks, pos);
    const int n = DecodeTile(nest, part.tiling, task % tiles, pos);
    (is_signed ? Pool<int8_t> : Pool<uint8_t>)(part, w, guards, pos, row, Least(part.block_rows, rows - row),
                                               n);
  }
}

}  // namespace rondo::host::RONDO_ISA
