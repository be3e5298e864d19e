// Matmuls with f32 accumulators, an A without n and Bs without m: a few rows times a streamed B
// (Variant::kFewRows), or packed blocks (Variant::kGemm).
#include "drivers/host/matmul/gemm_program.h"
#include "drivers/host/matmul/matmul_builders.h"
#include "drivers/host/matmul/operands.h"
#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {
namespace {

// The row length for blocks of A: one cache line more than the lanes, so that rows do not share one set of a
// cache.
int64_t PaddedRow(int64_t k) { return (k + kLanes - 1) / kLanes * (kLanes + 16); }

// The floats of A in place, if they need no packing.
const Access* DirectLeft(const LeftSide& left, const Nest& nest) {
  int64_t step = 0;
  const bool direct = left.load != nullptr && left.load->dtype == DType::kF32 &&
                      Direct(left.load, nest, kK, &step) != nullptr && step == 1;
  return direct ? left.load : nullptr;
}

// Whether B can be read once, in place.
bool Streams(const RhsProgram& rhs, bool linear) {
  return linear && !IsFp8(rhs.by_n->dtype)  // which is widened a block at a time
         && (rhs.k_unit || rhs.by_n->lane.kind == LaneKind::kUnit);
}

Status BuildFewRows(PartContext& c, const RhsProgram* rhs, const LeftSide& left, PartProgram** out) {
  FewRowsPart* p = c.New<FewRowsPart>(Variant::kFewRows);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  const Nest& nest = c.nest;
  const int64_t rows = nest.points[kM], k = nest.points[kK];
  p->tiling = c.tiling;
  p->work = MatmulWork(nest).Blocked();
  p->num_rhs = NumRhs(c);
  for (int j = 0; j < p->num_rhs; ++j) p->rhs[j] = rhs[j];
  p->left = left;
  RONDO_RETURN_IF_ERROR(BuildTape(c, c.part.epilogue, c.tiling, {}, &p->epilogue));
  p->block_rows = rows;
  p->tasks = nest.points[kOuter] * c.tiling.tiles;
  p->left.row = (k + kLanes - 1) / kLanes * kLanes + 16;
  constexpr int64_t kMostAcc = int64_t{64} << 10;  // bytes of accumulators of tiles walked together
  p->tiles_at_once = kMostAcc / (rows * kLanes * 4);
  if (p->tiles_at_once > c.tiling.tiles) p->tiles_at_once = c.tiling.tiles;
  p->left.direct = DirectLeft(left, nest);
  p->left.at = c.Take(Bytes(rows, PaddedRow(Bytes(left.tiling.tiles, kLanes)), 4));
  p->acc_stride = Bytes(rows, p->tiles_at_once, p->acc_row, 4);
  p->acc_at = c.Take(Bytes(p->acc_stride, p->num_rhs));
  return Status::Ok();
}

Status BuildGemm(PartContext& c, const RhsProgram* rhs, const LeftSide& left, PartProgram** out) {
  PackedGemm* p = c.New<PackedGemm>(Variant::kGemm);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  const Nest& nest = c.nest;
  const int64_t rows = nest.points[kM];
  p->tiling = c.tiling;
  p->work = MatmulWork(nest).Blocked();
  p->num_rhs = NumRhs(c);
  for (int j = 0; j < p->num_rhs; ++j) p->rhs[j] = rhs[j];
  p->left = left;
  RONDO_RETURN_IF_ERROR(BuildEpilogue(c, p));
  // As many rows as keep packed A within 8 MiB, up to 16 register blocks.
  constexpr int64_t kMostBytes = int64_t{8} << 20;
  const int64_t padded = PaddedRow(Bytes(left.tiling.tiles, kLanes));
  int64_t blocks = kMostBytes / (padded * 4 * c.engine.rows);
  blocks = blocks < 1 ? 1 : blocks > 16 ? 16 : blocks;
  constexpr int64_t kExtra = 6;  // the time to pack B, in rows
  const int64_t others = Bytes(nest.points[kOuter], c.tiling.tiles);
  p->block_rows =
      RowsOfBlock({rows, blocks * c.engine.rows, c.engine.rows, kExtra, others}, c.sharing.Shares(p->work));
  const int64_t row_blocks = (rows + p->block_rows - 1) / p->block_rows;
  p->tasks = nest.points[kOuter] * row_blocks * c.tiling.tiles;
  constexpr int64_t kMostColumns = 32, kMostKept = int64_t{4} << 20;
  const int64_t lanes = c.tiling.chunk * c.tiling.inner, depth = left.tiling.chunk * left.tiling.inner;
  bool packs = false;
  for (int j = 0; j < p->num_rhs; ++j) packs |= rhs[j].stored == 0;
  p->panels = packs ? (lanes + kMostColumns - 1) / kMostColumns * kMostColumns * depth : 0;
  const int64_t all = Bytes(p->panels, c.tiling.tiles, left.tiling.tiles, p->num_rhs, 4);
  if (packs && row_blocks > 1 && all <= kMostKept) p->kept_tiles = c.tiling.tiles;
  p->rhs_at = c.Take(p->kept_tiles > 0 ? all : p->panels * 4);
  p->kept_at = c.Take(Bytes(p->kept_tiles, sizeof(int64_t)));
  p->temp_at = c.Take(kLanes * 16 * 4);
  p->left.at = c.Take(Bytes(p->block_rows, padded, 4));
  p->acc_row = AccumulatorRow(c.tiling, c.engine);
  constexpr int64_t kPastEnd = 16;  // floats that a tape may read behind the last row
  p->acc_stride = Bytes(Bytes(p->block_rows, p->acc_row) + kPastEnd, 4);
  p->acc_at = c.Take(Bytes(p->acc_stride, p->num_rhs));
  return Status::Ok();
}

}  // namespace

bool FitsBlocked(const PartContext& c) {
  const Nest& nest = c.nest;
  const bool of_planes = c.part.skeleton == Skeleton::kConvolution && !c.channels_last;
  bool fits = !IsPool(c) && c.part.acc_type == TapeType::kF32;
  for (int j = 0; fits && j < NumRhs(c); ++j) {
    const Operand& rhs = c.part.operands[RightOperand(c, j)];
    fits = WidensToF32(rhs.dtype) && !c.Depends(rhs, kM);
  }
  if (!fits) return false;
  const GrowingList<TapeInst> lhs = LhsTape(c);
  if (!lhs.ok() || c.TapeDepends(Tape(lhs.data(), lhs.size()), kN)) return false;
  const bool small = MatmulWork(nest).products < 512 && nest.points[kK] < 8;
  return !small && !(of_planes && nest.points[kM] == 1);
}

Status BuildBlocked(PartContext& c, PartProgram** out) {
  LeftSide left;
  RONDO_RETURN_IF_ERROR(BuildLeft(c, &left));
  RhsProgram sides[kMaxSlots];
  const bool of_planes = c.part.skeleton == Skeleton::kConvolution && !c.channels_last;
  bool streams = !of_planes && c.nest.points[kM] <= kFewRows;
  for (int j = 0; j < NumRhs(c); ++j) {
    RhsProgram& rhs = sides[j];
    RONDO_RETURN_IF_ERROR(c.BuildAccess(RightOperand(c, j), c.tiling, &rhs.by_n));
    const bool linear = Linear(*rhs.by_n, c.nest, kK, &rhs.k_step);
    rhs.k_unit = linear && rhs.k_step == 1 && rhs.by_n->lane.kind != LaneKind::kUnit;
    rhs.stored = StoredPanels(c, *rhs.by_n);
    streams = streams && Streams(rhs, linear);
  }
  return streams ? BuildFewRows(c, sides, left, out) : BuildGemm(c, sides, left, out);
}

}  // namespace rondo::host
