// Depthwise convolutions of 8-bit integers over contiguous channels (Variant::kChannelBytes).
#include <numeric>

#include "drivers/host/convolution/convolution_builders.h"
#include "drivers/host/matmul/matmul_builders.h"
#include "drivers/host/matmul/operands.h"

namespace rondo::host {
namespace {

constexpr int64_t kMostTaps = 1 << 12;     // sums of products of bytes stay within 32 bits
constexpr int64_t kMostWideTaps = 1 << 8;  // the same for bytes and 16 bits
constexpr int64_t kMostPoints = 16;        // of a strip
constexpr int64_t kMostStep = 4;           // columns from point to point, if points share columns
constexpr int64_t kMostColumns = 128;      // fours of a strip's columns that fit an L1 cache

// Finds how many points share their columns, and the columns' spacing: coordinates of point p and horizontal
// tap x are those of column p * point_columns + x * tap_columns, in the input and in every guard.
Status BuildStrip(PartContext& c, const Access& input, ChannelStripProgram* strip) {
  const Nest& nest = c.nest;
  const int along = nest.first[kM + 1] - 1, tap = nest.first[kK + 1] - 1;
  const int64_t extent = nest.extent[along];
  const int64_t step = StepAlong(input, along), dilation = StepAlong(input, tap);
  strip->horizontal = nest.extent[tap];
  strip->vertical = nest.points[kK] / strip->horizontal;
  const int64_t beside = strip->with.taps;
  strip->fours = (strip->vertical + beside - 1) / beside;
  Span<int64_t> unit = c.arena.New<int64_t>(input.num_guards + size_t{1});
  if (unit.data() == nullptr) return c.NoMemory();
  strip->guard_unit = unit.data();
  const auto try_strip = [&](int64_t points, int64_t point_columns, int64_t tap_columns, int64_t bytes) {
    strip->points = points;
    strip->point_columns = point_columns;
    strip->tap_columns = tap_columns;
    strip->unit = bytes;
    for (int g = 0; g < input.num_guards; ++g) {
      const GuardTest& guard = input.guards[g];
      const int64_t of_point = StepAlong(guard, along), of_tap = StepAlong(guard, tap);
      unit[static_cast<size_t>(g)] = strip->horizontal > 1 ? of_tap / tap_columns : of_point / point_columns;
      const int64_t each = unit[static_cast<size_t>(g)];
      if (each < 0 || (strip->horizontal > 1 && each * tap_columns != of_tap) ||
          (points > 1 && each * point_columns != of_point)) {
        return false;
      }
    }
    return true;
  };
  const int64_t common = strip->horizontal == 1     ? step
                         : step > 0 && dilation > 0 ? std::gcd(step, dilation)
                                                    : 0;
  if (extent > 1 && common > 0 && step / common <= kMostStep) {
    const int64_t point_columns = step / common, tap_columns = strip->horizontal == 1 ? 1 : dilation / common,
                  reach = Bytes(strip->horizontal - 1, tap_columns) + 1;
    int64_t points = kMostPoints < extent ? kMostPoints : extent;
    while (points > 1 && Bytes((points - 1) * point_columns + reach, strip->fours) > kMostColumns) --points;
    if (points > 1 && try_strip(points, point_columns, tap_columns, common)) return Status::Ok();
  }
  if (try_strip(1, 1, 1, strip->horizontal == 1 ? 0 : dilation)) return Status::Ok();
  return c.Fail("a guard whose coordinates fall");
}

}  // namespace

// Requires bytes, one input channel for each output channel, guards with coordinates that increase, and no
// index from data.
bool FitsChannelBytes(const PartContext& c) {
  const Nest& nest = c.nest;
  if (c.part.skeleton != Skeleton::kConvolution || c.part.combine != Combine::kProduct ||
      c.part.rhs.size() > 1 || !c.channels_last || c.part.acc_type != TapeType::kI64 || nest.first[kM] != 1 ||
      nest.points[kOuter] != 1) {
    return false;
  }
  if (c.part.loops[2] != 1 || c.part.loops[3 + c.part.n] != 1) return false;
  const Operand& input = c.part.operands[c.part.lhs];
  const Operand& weight = c.part.operands[c.part.rhs[0]];
  const bool wide = weight.dtype == DType::kI16;
  if (nest.points[kK] > (wide ? kMostWideTaps : kMostTaps)) return false;
  bool fits = Is8Bit(input.dtype) && input.indirects.empty() && (wide || Is8Bit(weight.dtype)) &&
              weight.indirects.empty() && weight.guards.empty();
  constexpr size_t kGroup = 1;
  for (const Guard& guard : input.guards) {
    fits &= guard.strides[kGroup] == 0;
    for (const int64_t stride : guard.strides) fits &= stride >= 0;
  }
  return fits;
}

Status BuildChannelBytes(PartContext& c, PartProgram** out) {
  const Nest& nest = c.nest;
  ChannelBytesPart* p = c.New<ChannelBytesPart>(Variant::kChannelBytes);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  p->tiling = c.tiling;
  p->num_rhs = 1;
  ChannelStripProgram& channels = p->strip;
  channels.with = c.engine.bytes.channels;
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.lhs, c.tiling, &p->rhs[0].by_n));
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.rhs[0], c.tiling, &p->weight));
  const Operand& input = c.part.operands[c.part.lhs];
  p->left_flip = input.dtype == DType::kI8 ? 0x80 : 0;
  p->absent = static_cast<uint8_t>(static_cast<int64_t>(input.absent));
  RONDO_RETURN_IF_ERROR(BuildSumsEpilogue(c, p));
  RONDO_RETURN_IF_ERROR(BuildTaps(c, *p->rhs[0].by_n, p->weight, -1, &p->taps));
  RONDO_RETURN_IF_ERROR(BuildStrip(c, *p->rhs[0].by_n, &channels));
  const int64_t rows = nest.points[kM], step = channels.with.step, lanes = c.tiling.chunk;
  const double points = static_cast<double>(rows) * static_cast<double>(nest.points[kN]);
  p->work = points * (0.3 + 0.02 * static_cast<double>(nest.points[kK]));
  p->acc_row = (lanes + step - 1) / step * step;
  constexpr int64_t kMostAcc = int64_t{16} << 10;  // sums that fit an L2 cache beside the input
  p->block_rows = RowsOfLines(c, p->work, kMostAcc / p->acc_row);
  p->tasks = (rows + p->block_rows - 1) / p->block_rows * c.tiling.tiles;
  p->acc_stride = Bytes(p->block_rows, p->acc_row, sizeof(int32_t));
  p->acc_at = c.Take(p->acc_stride);
  p->wide_stride = kLanes * static_cast<int64_t>(sizeof(int64_t));
  p->wide_at = c.Take(p->wide_stride);
  p->lanes_at = c.Take(kLanes * static_cast<int64_t>(sizeof(int64_t)));
  p->correction_at = c.Take(Bytes(kLanes, sizeof(int32_t)));
  const int64_t most_columns =
      (channels.points - 1) * channels.point_columns + (channels.horizontal - 1) * channels.tap_columns + 1;
  channels.columns_at = c.Take(Bytes(most_columns, channels.fours, 4, step));
  channels.tile_steps = (lanes + step - 1) / step;
  const int64_t tiles = c.tiling.tiles;
  channels.weights_bytes = Bytes(c.part.operands[c.part.rhs[0]].dtype == DType::kI8 ? 1 : 2,
                                 channels.horizontal, channels.fours, 4, step);
  channels.weights_at = c.Take(Bytes(channels.weights_bytes, channels.tile_steps, tiles));
  channels.made_at = c.Take(Bytes(channels.tile_steps, tiles));
  channels.rows_at = c.Take(Bytes(nest.points[kK] + 1, step));
  channels.absent_at = c.Take(step);
  channels.sums_at = c.Take(Bytes(kLanes, tiles, sizeof(int32_t)));
  return FindWritten(c, p);
}

}  // namespace rondo::host
