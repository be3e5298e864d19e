// Matmuls of 8-bit integers (Variant::kBytes): rows of A are packed as bytes; columns of B are read in place
// if their k is contiguous.
#include "drivers/host/convolution/convolution_builders.h"
#include "drivers/host/matmul/lines_builder.h"
#include "drivers/host/matmul/matmul_builders.h"
#include "drivers/host/matmul/operands.h"

namespace rondo::host {
namespace {

constexpr int64_t kMostDepth = 33000;     // u8 times u8: sums stay within 32 bits
constexpr int64_t kMostTaps = 1 << 12;    // each has an address
constexpr int64_t kVector = 64;           // bytes: rows of packed bytes are whole vectors
constexpr int64_t kMostPacked = 1 << 18;  // bytes of packed rows, which fit an L2 cache
constexpr int64_t kMostRows = 64;

}  // namespace

// Requires exact sums of products of bytes, as A and B of a matmul.
bool FitsBytes(const PartContext& c) {
  const Nest& nest = c.nest;
  if (c.part.acc_type != TapeType::kI64 || c.part.combine != Combine::kProduct || !c.part.prologue.empty() ||
      nest.points[kK] > kMostDepth) {
    return false;
  }
  if (c.part.skeleton == Skeleton::kConvolution && !c.channels_last) return false;
  const Operand& left = c.part.operands[LeftOperand(c)];
  bool fits = Is8Bit(left.dtype) && !c.Depends(left, kN);
  for (size_t j = 0; j < c.part.rhs.size(); ++j) {
    const Operand& right = c.part.operands[RightOperand(c, static_cast<int>(j))];
    fits &= Is8Bit(right.dtype) && !c.Depends(right, kM);
  }
  return fits;
}

// Describes A as runs of bytes; leaves none if A has no runs.
Status BuildRuns(PartContext& c, BytesPart* p) {
  const Nest& nest = c.nest;
  const Access& left = *p->left.load;
  const int last = nest.first[kK + 1] - 1;
  bool fits = left.num_indices == 0 && left.num_guards <= kMaxLoops && StepAlong(left, last) == 1;
  for (int g = 0; g < left.num_guards; ++g) {
    const GuardTest& guard = left.guards[g];
    for (int i = 0; i < guard.loops; ++i) fits &= guard.loop[i] != last;
  }
  const int64_t run = nest.extent[last], taps = nest.points[kK] / run;
  if (!fits || taps > kMostTaps) return Status::Ok();
  RONDO_RETURN_IF_ERROR(BuildTaps(c, left, nullptr, last, &p->taps));
  Span<int64_t> at = c.arena.New<int64_t>(static_cast<size_t>(taps));
  Span<int64_t> length = c.arena.New<int64_t>(static_cast<size_t>(taps));
  if (at.data() == nullptr || length.data() == nullptr) return c.NoMemory();
  size_t runs = 0;
  for (int64_t t = 0; t < taps; ++t) {
    if (runs > 0 && at[runs - 1] + length[runs - 1] == p->taps.at[t]) {
      length[runs - 1] += run;
      continue;
    }
    at[runs] = p->taps.at[t];
    length[runs++] = run;
  }
  p->in_runs = true;
  p->tap_run = run;
  p->runs = static_cast<int64_t>(runs);
  p->run_at = at.data();
  p->run_bytes = length.data();
  return Status::Ok();
}

// Whether B number `j` is the same number for all k and n.
bool IsRowSum(const PartContext& c, size_t j) {
  const Operand& right = c.part.operands[RightOperand(c, static_cast<int>(j))];
  return right.guards.empty() && right.indirects.empty() && !c.Depends(right, kK) && !c.Depends(right, kN);
}

// Whether the rows of A can be multiplied in place: evenly spaced, of length k, and unchanged.
bool FindInPlace(const PartContext& c, BytesPart* p) {
  const Nest& nest = c.nest;
  const Access& left = *p->left.load;
  if (!p->in_runs || p->runs != 1 || p->run_at[0] != 0 || p->left_flip != 0 ||
      !Linear(left, nest, kM, &p->left_row))
    return false;
  const int64_t k = nest.points[kK], lanes = c.tiling.chunk * c.tiling.inner;
  const int64_t last_lanes =
      (nest.extent[c.tiling.split] - 1) % c.tiling.chunk * c.tiling.inner + c.tiling.inner;
  const int64_t last_rows = (nest.points[kM] - 1) % p->block_rows + 1;
  bool within_row = true;
  for (const int64_t rows : {p->block_rows, last_rows}) {
    for (const int64_t columns : {lanes, last_lanes})
      within_row &= c.engine.bytes.reads_within_row(static_cast<int>(rows), static_cast<int>(columns), k);
  }
  return within_row;
}

Status BuildBytes(PartContext& c, PartProgram** out) {
  const Nest& nest = c.nest;
  const int64_t rows = nest.points[kM], k = nest.points[kK];
  BytesPart* p = c.New<BytesPart>(Variant::kBytes);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  p->tiling = c.tiling;
  p->work = MatmulWork(nest).OfBytes();
  p->multiply = c.engine.bytes.multiply;
  p->left.tiling = MakeTiling(nest, nest.first[kK], nest.first[kK + 1], kLanes, c.linear);
  RONDO_RETURN_IF_ERROR(c.BuildAccess(LeftOperand(c), p->left.tiling, &p->left.load));
  RONDO_RETURN_IF_ERROR(BuildRuns(c, p));
  int64_t row_step = 0, k_step = 0;
  if (!p->in_runs && Linear(*p->left.load, nest, kM, &row_step) && row_step == 1 &&
      Linear(*p->left.load, nest, kK, &k_step))
    p->transposed_step = k_step;
  const Operand& left = c.part.operands[LeftOperand(c)];
  p->left_flip = left.dtype == DType::kI8 ? 0x80 : 0;
  p->absent = static_cast<uint8_t>(static_cast<int64_t>(left.absent));
  p->num_rhs = static_cast<int>(c.part.rhs.size());
  bool in_place = true;
  for (int j = 0; j < p->num_rhs; ++j) {
    RhsProgram& rhs = p->rhs[j];
    p->row_sum[j] = IsRowSum(c, static_cast<size_t>(j));
    const uint16_t operand = RightOperand(c, j);
    RONDO_RETURN_IF_ERROR(c.BuildAccess(operand, c.tiling, &rhs.by_n));
    if (!Linear(*rhs.by_n, nest, kK, &rhs.k_step)) rhs.k_step = 0;
    rhs.k_unit = rhs.by_n->lane.kind != LaneKind::kTable && rhs.by_n->plain && (rhs.k_step == 1 || k == 1);
    in_place &= rhs.k_unit || p->row_sum[j];
    if (!p->row_sum[j]) p->right_flip[j] = c.part.operands[operand].dtype == DType::kU8 ? 0x80 : 0;
    p->sum_rows |= p->right_flip[j] != 0 || p->row_sum[j];
  }
  RONDO_RETURN_IF_ERROR(BuildSumsEpilogue(c, p));
  FindLines(c, p);
  p->left.row = (k + kVector - 1) / kVector * kVector;
  if (p->lines.how.lines > 0) {
    BuildLines(c, p);
  } else {
    int64_t most = kMostPacked / p->left.row;
    most = most < 8 ? 8 : most > kMostRows ? kMostRows : most;
    constexpr int64_t kStep = 4, kExtra = 4;
    const int64_t others = Bytes(nest.points[kOuter], c.tiling.tiles);
    p->block_rows = RowsOfBlock({rows, most, kStep, kExtra, others}, c.sharing.Shares(p->work));
    p->in_place = FindInPlace(c, p);
  }
  const int64_t blocks = (rows + p->block_rows - 1) / p->block_rows;
  p->tasks = nest.points[kOuter] * blocks * c.tiling.tiles;
  p->acc_row = (c.tiling.chunk * c.tiling.inner + 3) / 4 * 4;
  const int64_t packed_rows = p->block_rows + 1;
  if (p->lines.how.lines == 0) p->left.at = c.Take(Bytes(packed_rows, p->left.row));
  p->row_sums_at = c.Take(Bytes(packed_rows, sizeof(int64_t)));
  p->acc_stride = Bytes(packed_rows, p->acc_row, sizeof(int32_t));
  p->acc_at = c.Take(Bytes(p->acc_stride, p->num_rhs));
  p->wide_stride = kLanes * static_cast<int64_t>(sizeof(int64_t));
  p->wide_at = c.Take(Bytes(p->wide_stride, p->num_rhs));
  p->lanes_at = c.Take(kLanes * static_cast<int64_t>(sizeof(int64_t)));
  p->correction_at = c.Take(Bytes(kLanes, p->num_rhs, sizeof(int32_t)));
  if (!in_place) p->columns_at = c.Take(Bytes(kLanes, p->left.row));
  return FindWritten(c, p);
}

}  // namespace rondo::host
