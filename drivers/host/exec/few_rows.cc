// The contraction path of at most kFewRows rows: every rhs element is read once, straight from memory.
#include "drivers/host/exec/exec.h"
#include "drivers/host/exec/product.h"

namespace rondo::host::RONDO_ISA {
namespace {

// One rhs that does not have one row of n after another: dot products, lane by lane where lanes are not
// evenly spaced.
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

}  // namespace

void RunFewRows(const PartProgram& part, Worker& w, int64_t first, int64_t last) {
  const Nest& nest = part.nest;
  const int rows = static_cast<int>(nest.points[1]);
  const int64_t k = nest.points[3], tiles = part.tiling.tiles, k_tiles = part.k_tiling.tiles;
  const bool direct = part.lhs_direct != nullptr && rows == 1;
  float* packed = reinterpret_cast<float*>(w.scratch + part.lhs_at);
  if (!direct) BeginTape(part.lhs_by_k, w);
  BeginTape(part.program, w);
  int64_t pos[kMaxNest] = {};
  int64_t packed_outer = -1;
  for (int64_t task = first; task < last; ++task) {
    const int64_t outer = task / tiles;
    Decode(nest, 0, nest.first[1], outer, pos);
    if (!direct && packed_outer != outer) PackLhs(part, w, pos, 0, rows, packed);
    packed_outer = outer;
    for (int d = nest.first[1]; d < nest.first[2]; ++d) pos[d] = 0;
    for (int d = nest.first[3]; d < nest.first[4]; ++d) pos[d] = 0;
    const int n = DecodeTile(nest, part.tiling, task % tiles, pos);
    for (int j = 0; j < part.num_rhs; ++j) {
      const RhsProgram& rhs = part.rhs[j];
      const Access& access = *rhs.by_n;
      const char* b = Pointer(access, w, BaseOf(access, pos));
      float* acc = reinterpret_cast<float*>(w.scratch + part.acc_at + j * part.acc_stride);
      if (direct) {
        const Access& lhs = *part.lhs_direct;
        const float* a = reinterpret_cast<const float*>(Pointer(lhs, w, BaseOf(lhs, pos)));
        if (rhs.k_unit) {
          DotLanes(rhs, b, a, 0, 1, k, n, acc, false);
        } else {
          WalkRows(a, 0, 1, b, access.dtype, rhs.k_step, k, n, acc, kLanes, false);
        }
        continue;
      }
      for (int64_t t = 0; t < k_tiles; ++t) {
        const float* a = packed + t * rows * kLhsRow;
        const int64_t at = t * part.k_tiling.chunk;
        const int64_t depth = Least(part.k_tiling.chunk, k - at);
        const char* from = b + at * rhs.k_step * access.size;
        if (rhs.k_unit) {
          DotLanes(rhs, from, a, kLhsRow, rows, depth, n, acc, t > 0);
        } else {
          WalkRows(a, kLhsRow, rows, from, access.dtype, rhs.k_step, depth, n, acc, kLanes, t > 0);
        }
      }
    }
    RunEpilogue(part, w, pos, 0, rows, n);
  }
}

}  // namespace rondo::host::RONDO_ISA
