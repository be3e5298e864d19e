// Products of 8-bit integers (Path::kBytes): rows of the left side are packed as bytes, columns of the right
// side are read where they lie if their k is contiguous.
#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

constexpr int kOuter = 0, kM = 1, kN = 2, kK = 3;  // groups of the nest

constexpr int64_t kMostDepth = 33000;     // u8 times u8: sums stay within 32 bits
constexpr int64_t kMostTaps = 1 << 12;    // of which each has an address
constexpr int64_t kVector = 64;           // bytes: rows of packed bytes are whole vectors
constexpr int64_t kMostPacked = 1 << 18;  // bytes of packed rows, which a second cache holds
constexpr int64_t kMostRows = 64;

int64_t StepAlong(const Access& access, int loop) {
  for (int i = 0; i < access.num_loops; ++i) {
    if (access.loop[i] == loop) return access.step[i];
  }
  return 0;
}

}  // namespace

// Exact sums of products of bytes, as the left and right side of a matmul.
bool PartBuilder::FitsBytes() const {
  const Nest& nest = out_->nest;
  if (part_.acc_type != TapeType::kI64 || part_.combine != Combine::kProduct || !part_.prologue.empty() ||
      nest.points[kK] > kMostDepth) {
    return false;
  }
  if (part_.skeleton == Skeleton::kConvolution && !channels_) return false;
  const Operand& left = part_.operands[LeftOperand()];
  bool fits = Is8Bit(left.dtype) && !Depends(left, kN);
  for (size_t j = 0; j < part_.rhs.size(); ++j) {
    const Operand& right = part_.operands[RightOperand(static_cast<int>(j))];
    fits &= Is8Bit(right.dtype) && !Depends(right, kM);
  }
  return fits;
}

// The left side as runs of bytes: none where it does not have them.
Status PartBuilder::BuildRuns(BytesProgram* bytes) {
  const Nest& nest = out_->nest;
  const Access& left = *out_->lhs_load;
  const int last = nest.first[kK + 1] - 1;
  bool fits = left.num_indices == 0 && left.num_guards <= kMaxLoops && StepAlong(left, last) == 1;
  for (int g = 0; g < left.num_guards; ++g) {
    const GuardTest& guard = left.guards[g];
    for (int i = 0; i < guard.loops; ++i) fits &= guard.loop[i] != last;
  }
  const int64_t run = nest.extent[last], taps = nest.points[kK] / run;
  if (!fits || taps > kMostTaps) return Status::Ok();
  RONDO_RETURN_IF_ERROR(BuildTaps(left, last));
  Span<int64_t> at = arena_.New<int64_t>(static_cast<size_t>(taps));
  Span<int64_t> length = arena_.New<int64_t>(static_cast<size_t>(taps));
  if (at.data() == nullptr || length.data() == nullptr) return NoMemory();
  size_t runs = 0;
  for (int64_t t = 0; t < taps; ++t) {
    if (runs > 0 && at[runs - 1] + length[runs - 1] == out_->tap_at[t]) {
      length[runs - 1] += run;
      continue;
    }
    at[runs] = out_->tap_at[t];
    length[runs++] = run;
  }
  bytes->in_runs = true;
  bytes->tap_run = run;
  bytes->runs = static_cast<int64_t>(runs);
  bytes->run_at = at.data();
  bytes->run_bytes = length.data();
  return Status::Ok();
}

// Whether right side `j` is one number for all of k and n.
bool PartBuilder::IsRowSum(size_t j) const {
  const Operand& right = part_.operands[RightOperand(static_cast<int>(j))];
  return right.guards.empty() && right.indirects.empty() && !Depends(right, kK) && !Depends(right, kN);
}

// Whether the rows of the left side can be multiplied where they lie: evenly spaced, as long as k, as they
// are.
bool PartBuilder::FindInPlace(BytesProgram* bytes) const {
  const Nest& nest = out_->nest;
  const Access& left = *out_->lhs_load;
  if (!bytes->in_runs || bytes->runs != 1 || bytes->run_at[0] != 0 || bytes->left_flip != 0 ||
      !Linear(left, nest, kM, &bytes->left_row))
    return false;
  const int64_t k = nest.points[kK], lanes = out_->tiling.chunk * out_->tiling.inner;
  const int64_t last_lanes =
      (nest.extent[out_->tiling.split] - 1) % out_->tiling.chunk * out_->tiling.inner + out_->tiling.inner;
  const int64_t last_rows = (nest.points[kM] - 1) % out_->block_rows + 1;
  bool no_more = true;
  for (const int64_t rows : {out_->block_rows, last_rows}) {
    for (const int64_t columns : {lanes, last_lanes})
      no_more &= engine_.bytes.reads_no_more(static_cast<int>(rows), static_cast<int>(columns), k);
  }
  return no_more;
}

Status PartBuilder::BuildBytes() {
  const Nest& nest = out_->nest;
  const int64_t rows = nest.points[kM], k = nest.points[kK];
  Span<BytesProgram> made = arena_.New<BytesProgram>(1);
  if (made.data() == nullptr) return NoMemory();
  BytesProgram& bytes = made[0];
  out_->bytes = &bytes;
  out_->path = Path::kBytes;
  bytes.multiply = engine_.bytes.multiply;
  out_->k_tiling = MakeTiling(nest, nest.first[kK], nest.first[kK + 1], kLanes, linear_);
  RONDO_RETURN_IF_ERROR(BuildAccess(LeftOperand(), out_->k_tiling, &out_->lhs_load));
  RONDO_RETURN_IF_ERROR(BuildRuns(&bytes));
  int64_t row_step = 0, k_step = 0;
  if (!bytes.in_runs && Linear(*out_->lhs_load, nest, kM, &row_step) && row_step == 1 &&
      Linear(*out_->lhs_load, nest, kK, &k_step))
    bytes.turned_step = k_step;
  const Operand& left = part_.operands[LeftOperand()];
  bytes.left_flip = left.dtype == DType::kI8 ? 0x80 : 0;
  bytes.absent = static_cast<uint8_t>(static_cast<int64_t>(left.absent));
  out_->num_rhs = static_cast<int>(part_.rhs.size());
  bool in_place = true;
  for (int j = 0; j < out_->num_rhs; ++j) {
    RhsProgram& rhs = out_->rhs[j];
    bytes.row_sum[j] = IsRowSum(static_cast<size_t>(j));
    const uint16_t operand = RightOperand(j);
    RONDO_RETURN_IF_ERROR(BuildAccess(operand, out_->tiling, &rhs.by_n));
    if (!Linear(*rhs.by_n, nest, kK, &rhs.k_step)) rhs.k_step = 0;
    rhs.k_unit = rhs.by_n->lane.kind != LaneKind::kTable && rhs.by_n->plain && (rhs.k_step == 1 || k == 1);
    in_place &= rhs.k_unit || bytes.row_sum[j];
    if (!bytes.row_sum[j]) bytes.right_flip[j] = part_.operands[operand].dtype == DType::kU8 ? 0x80 : 0;
    bytes.sum_rows |= bytes.right_flip[j] != 0 || bytes.row_sum[j];
  }
  RONDO_RETURN_IF_ERROR(BuildSumsEpilogue(&bytes));
  FindLines(&bytes);
  out_->lhs_row = (k + kVector - 1) / kVector * kVector;
  if (bytes.lines.how.lines > 0) {
    BuildLines(&bytes);
  } else {
    int64_t most = kMostPacked / out_->lhs_row;
    most = most < 8 ? 8 : most > kMostRows ? kMostRows : most;
    constexpr int64_t kStep = 4, kExtra = 4;
    const int64_t others = Bytes(nest.points[kOuter], out_->tiling.tiles);
    out_->block_rows = RowsOfBlock({rows, most, kStep, kExtra, others}, sharing_.Shares(out_->work));
    bytes.in_place = FindInPlace(&bytes);
  }
  const int64_t blocks = (rows + out_->block_rows - 1) / out_->block_rows;
  out_->tasks = nest.points[kOuter] * blocks * out_->tiling.tiles;
  out_->acc_row = (out_->tiling.chunk * out_->tiling.inner + 3) / 4 * 4;
  const int64_t packed_rows = out_->block_rows + 1;
  if (bytes.lines.how.lines == 0) out_->lhs_at = Take(Bytes(packed_rows, out_->lhs_row));
  out_->count_at = Take(Bytes(packed_rows, sizeof(int64_t)));
  out_->acc_stride = Bytes(packed_rows, out_->acc_row, sizeof(int32_t));
  out_->acc_at = Take(Bytes(out_->acc_stride, out_->num_rhs));
  bytes.wide_stride = kLanes * static_cast<int64_t>(sizeof(int64_t));
  out_->rhs_at = Take(Bytes(bytes.wide_stride, out_->num_rhs));
  out_->temp_at = Take(kLanes * static_cast<int64_t>(sizeof(int64_t)));
  bytes.correction_at = Take(Bytes(kLanes, out_->num_rhs, sizeof(int32_t)));
  if (!in_place) bytes.columns_at = Take(Bytes(kLanes, out_->lhs_row));
  return Status::Ok();
}

}  // namespace rondo::host
