#include "drivers/host/matmul/lines_builder.h"

namespace rondo::host {
namespace {

constexpr int64_t kLeastRows = 4;       // of a panel of columns that is packed for them
constexpr int64_t kMostWide = 1 << 19;  // bytes of lines, which fit an L2 cache
constexpr int64_t kMostRows = 64;

}  // namespace

void FindLines(const PartContext& c, BytesPart* p) {
  const Nest& nest = c.nest;
  const Access& left = *p->left.load;
  const int inner = nest.first[kM + 1] - 1;
  const int64_t taps = p->taps.count, run = p->tap_run;
  if (c.engine.bytes.multiply_lines == nullptr || !p->in_runs || nest.points[kM] < kLeastRows) return;
  ByteLines lines;
  for (int j = 0; j < p->num_rhs; ++j) {
    const RhsProgram& rhs = p->rhs[j];
    const bool beside = rhs.k_step > 0 && rhs.by_n->plain && rhs.by_n->lane.kind == LaneKind::kUnit;
    if (!p->row_sum[j] && !rhs.k_unit && !beside) return;
    if (!rhs.k_unit && !p->row_sum[j]) lines.k_step[j] = rhs.k_step;
  }
  lines.point_bytes = nest.extent[inner] == 1 ? run : StepAlong(left, inner);
  if (lines.point_bytes <= 0) return;
  for (int g = 0; g < left.num_guards; ++g) {
    const int64_t step = StepAlong(left.guards[g], inner);
    if (step == 0 || nest.extent[inner] == 1) continue;
    if (lines.guard >= 0 || step < 0) return;
    lines.guard = g;
    lines.guard_points = step;
  }
  // Whether tap `t` is `n` places after tap `first` of a line.
  const auto follows = [&](int64_t first, int64_t n) {
    bool so = p->taps.at[first + n] == p->taps.at[first] + n * run;
    for (int g = 0; g < left.num_guards; ++g) {
      const int64_t* at = p->taps.coordinate + g * taps;
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
  p->lines = lines;
}

void BuildLines(PartContext& c, BytesPart* p) {
  const Nest& nest = c.nest;
  ByteLines& lines = p->lines;
  const int64_t rows = nest.points[kM], along = nest.extent[nest.first[kM + 1] - 1];
  const int64_t row_bytes = lines.how.lines * lines.how.point_step * 2;
  int64_t most = kMostWide / row_bytes;
  most = most < 12 ? 12 : most > kMostRows ? kMostRows : most;
  const int64_t parts = (along + most - 1) / most;
  constexpr int64_t kStep = 4, kExtra = 4;
  const int64_t others = Bytes(nest.points[0], c.tiling.tiles), shares = c.sharing.Shares(p->work);
  // Uses parts of a line if a whole one is too large, or whole lines leave threads without work.
  const bool in_parts = parts > 1 || Bytes(rows / along, others) < shares;
  const int64_t block = in_parts
                            ? RowsOfBlock({rows, (along + parts - 1) / parts, kStep, kExtra, others}, shares)
                            : along * RowsOfBlock({rows / along, most / along, 1, 0, others}, shares);
  p->block_rows = block;
  const int64_t pieces = block / along + 2;
  const int64_t points = block < along ? block : along;
  lines.how.line_step = ((points - 1) * lines.how.point_step + lines.how.length + kWideSlack + 31) / 32 * 32;
  lines.lines_at = c.Take(Bytes(Bytes(pieces, lines.how.lines, lines.how.line_step), sizeof(int16_t)));
  lines.added_at = c.Take(Bytes(lines.how.line_step, sizeof(int16_t)));
  lines.pieces_at = c.Take(Bytes(pieces, sizeof(WidePiece)));
  lines.multiply = c.engine.bytes.multiply_lines;
  lines.widen = c.engine.bytes.widen;
  lines.sum = c.engine.bytes.sum_lines;
  lines.is_signed = p->left_flip != 0;
  p->left_flip = 0;
  p->sum_rows = false;
  for (int j = 0; j < p->num_rhs; ++j) {
    lines.is_unsigned[j] = p->right_flip[j] != 0;
    p->right_flip[j] = 0;
    p->sum_rows |= p->row_sum[j];
  }
}

}  // namespace rondo::host
