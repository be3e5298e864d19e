// Products of 8-bit integers whose left side is read as lines of the image (BytesProgram::lines): each byte
// is widened once a line of the kernel, not once a tap, and no row of k is put together for each point.
#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

constexpr int kM = 1;
constexpr int64_t kLeastRows = 4;       // of a panel of columns that is made for them
constexpr int64_t kMostWide = 1 << 19;  // bytes of lines, which a second cache holds
constexpr int64_t kMostRows = 64;

int64_t StepAlong(int loops, const uint8_t* loop, const int64_t* step, int which) {
  for (int i = 0; i < loops; ++i) {
    if (loop[i] == which) return step[i];
  }
  return 0;
}

}  // namespace

// Finds how the left side's runs are lines, if they are: taps that lie beside each other, whose presence goes
// on from one to the next as it does from point to point.
void PartBuilder::FindLines(BytesProgram* bytes) const {
  const Nest& nest = out_->nest;
  const Access& left = *out_->lhs_load;
  const int inner = nest.first[kM + 1] - 1;
  const int64_t taps = out_->taps, run = bytes->tap_run;
  if (engine_.bytes.multiply_lines == nullptr || !bytes->in_runs || nest.points[kM] < kLeastRows) return;
  ByteLines lines;
  for (int j = 0; j < out_->num_rhs; ++j) {
    const RhsProgram& rhs = out_->rhs[j];
    const bool beside = rhs.k_step > 0 && rhs.by_n->plain && rhs.by_n->lane.kind == LaneKind::kUnit;
    if (!bytes->row_sum[j] && !rhs.k_unit && !beside) return;
    if (!rhs.k_unit && !bytes->row_sum[j]) lines.k_step[j] = rhs.k_step;
  }
  lines.point_bytes = nest.extent[inner] == 1 ? run : StepAlong(left.num_loops, left.loop, left.step, inner);
  if (lines.point_bytes <= 0) return;
  for (int g = 0; g < left.num_guards; ++g) {
    const int64_t step = StepAlong(left.guards[g].loops, left.guards[g].loop, left.guards[g].step, inner);
    if (step == 0 || nest.extent[inner] == 1) continue;
    if (lines.guard >= 0 || step < 0) return;
    lines.guard = g;
    lines.guard_points = step;
  }
  // Whether tap `t` is `n` behind tap `first` of a line.
  const auto follows = [&](int64_t first, int64_t n) {
    bool so = out_->tap_at[first + n] == out_->tap_at[first] + n * run;
    for (int g = 0; g < left.num_guards; ++g) {
      const int64_t* at = out_->tap_coordinate + g * taps;
      so &= at[first + n] == at[first] + (g == lines.guard ? n : 0);
    }
    return so;
  };
  int64_t n = 1;
  while (n < taps && follows(0, n)) ++n;
  bool even = taps % n == 0 && lines.point_bytes <= n * run;
  for (int64_t t = 0; even && t < taps; ++t) even = follows(t - t % n, t % n);
  lines.taps = even ? n : 1;
  lines.how.lines = taps / lines.taps;
  lines.how.length = lines.taps * run;
  lines.apart = lines.point_bytes > lines.how.length;
  lines.how.point_step = lines.apart ? run : lines.point_bytes;
  if (lines.guard >= 0 && !lines.apart && lines.guard_points * run != lines.point_bytes) return;
  bytes->lines = lines;
}

// Takes what lines need of scratch, and says how many rows are a block: whole lines of points, or even parts
// of one.
void PartBuilder::BuildLines(BytesProgram* bytes) {
  const Nest& nest = out_->nest;
  ByteLines& lines = bytes->lines;
  const int64_t rows = nest.points[kM], along = nest.extent[nest.first[kM + 1] - 1];
  const int64_t row_bytes = lines.how.lines * lines.how.point_step * 2;
  int64_t most = kMostWide / row_bytes;
  most = most < 12 ? 12 : most > kMostRows ? kMostRows : most;
  const int64_t parts = (along + most - 1) / most;
  int64_t block = parts > 1 ? (along + parts - 1) / parts : most / along * along;
  constexpr int64_t kStep = 4, kExtra = 4;
  const int64_t others = Bytes(nest.points[0], out_->tiling.tiles), shares = sharing_.Shares(out_->work);
  block = block < along ? RowsOfBlock({rows, block, kStep, kExtra, others}, shares)
                        : along * RowsOfBlock({rows / along, block / along, 1, 0, others}, shares);
  out_->block_rows = block;
  const int64_t pieces = block / along + 2;
  const int64_t points = block < along ? block : along;
  lines.how.line_step = ((points - 1) * lines.how.point_step + lines.how.length + kWideSlack + 31) / 32 * 32;
  lines.lines_at = Take(Bytes(Bytes(pieces, lines.how.lines, lines.how.line_step), sizeof(int16_t)));
  lines.added_at = Take(Bytes(lines.how.line_step, sizeof(int16_t)));
  lines.pieces_at = Take(Bytes(pieces, sizeof(WidePiece)));
  lines.multiply = engine_.bytes.multiply_lines;
  lines.widen = engine_.bytes.widen;
  lines.sum = engine_.bytes.sum_lines;
  lines.is_signed = bytes->left_flip != 0;
  bytes->left_flip = 0;
  bytes->sum_rows = false;
  for (int j = 0; j < out_->num_rhs; ++j) {
    lines.is_unsigned[j] = bytes->right_flip[j] != 0;
    bytes->right_flip[j] = 0;
    bytes->sum_rows |= bytes->row_sum[j];
  }
}

}  // namespace rondo::host
