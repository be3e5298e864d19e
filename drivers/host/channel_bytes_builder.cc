// Depthwise convolutions of 8-bit integers over channels that lie side by side (Path::kChannelBytes).
#include <numeric>

#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

constexpr int kOuter = 0, kM = 1, kN = 2, kK = 3;  // groups of the nest

constexpr int64_t kMostTaps = 1 << 12;     // sums of products of bytes stay within 32 bits
constexpr int64_t kMostWideTaps = 1 << 8;  // and so do those of bytes and 16 bits
constexpr int64_t kMostPoints = 16;        // of a strip
constexpr int64_t kMostStep = 4;           // columns from point to point, where points share them
constexpr int64_t kMostColumns = 128;      // fours of columns of a strip that a first cache holds

int64_t StepAlong(int loops, const uint8_t* loop, const int64_t* step, int which) {
  for (int i = 0; i < loops; ++i) {
    if (loop[i] == which) return step[i];
  }
  return 0;
}

}  // namespace

// Bytes, one input channel an output channel, guards along which coordinates grow, and no index from data.
bool PartBuilder::FitsChannelBytes() const {
  const Nest& nest = out_->nest;
  if (part_.skeleton != Skeleton::kConvolution || part_.combine != Combine::kProduct || !channels_ ||
      part_.acc_type != TapeType::kI64 || nest.first[kM] != 1 || nest.points[kOuter] != 1) {
    return false;
  }
  if (part_.loops[2] != 1 || part_.loops[3 + part_.n] != 1) return false;
  const Operand& input = part_.operands[part_.lhs];
  const Operand& weight = part_.operands[part_.rhs[0]];
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

// How many points share their columns, and how those lie: coordinates of point p and horizontal tap x are
// those of column p * point_columns + x * tap_columns, in the input and in every guard.
Status PartBuilder::BuildStrip(const Access& input, ChannelBytesProgram* strip) {
  const Nest& nest = out_->nest;
  const int along = nest.first[kM + 1] - 1, tap = nest.first[kK + 1] - 1;
  const int64_t extent = nest.extent[along];
  const int64_t step = StepAlong(input.num_loops, input.loop, input.step, along),
                dilation = StepAlong(input.num_loops, input.loop, input.step, tap);
  strip->horizontal = nest.extent[tap];
  strip->vertical = nest.points[kK] / strip->horizontal;
  const int64_t beside = strip->with.taps;
  strip->fours = (strip->vertical + beside - 1) / beside;
  Span<int64_t> unit = arena_.New<int64_t>(input.num_guards + size_t{1});
  if (unit.data() == nullptr) return NoMemory();
  strip->guard_unit = unit.data();
  const auto try_strip = [&](int64_t points, int64_t point_columns, int64_t tap_columns, int64_t bytes) {
    strip->points = points;
    strip->point_columns = point_columns;
    strip->tap_columns = tap_columns;
    strip->unit = bytes;
    for (int g = 0; g < input.num_guards; ++g) {
      const GuardTest& guard = input.guards[g];
      const int64_t of_point = StepAlong(guard.loops, guard.loop, guard.step, along),
                    of_tap = StepAlong(guard.loops, guard.loop, guard.step, tap);
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
  return Fail("a guard whose coordinates fall");
}

Status PartBuilder::BuildChannelBytes() {
  const Nest& nest = out_->nest;
  Span<BytesProgram> made = arena_.New<BytesProgram>(1);
  Span<ChannelBytesProgram> strip = arena_.New<ChannelBytesProgram>(1);
  if (made.data() == nullptr || strip.data() == nullptr) return NoMemory();
  BytesProgram& bytes = made[0];
  ChannelBytesProgram& channels = strip[0];
  out_->path = Path::kChannelBytes;
  out_->bytes = &bytes;
  out_->channel_bytes = &channels;
  out_->num_rhs = 1;
  channels.with = engine_.bytes.channels;
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.lhs, out_->tiling, &out_->rhs[0].by_n));
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.rhs[0], out_->tiling, &out_->weight));
  const Operand& input = part_.operands[part_.lhs];
  bytes.left_flip = input.dtype == DType::kI8 ? 0x80 : 0;
  bytes.absent = static_cast<uint8_t>(static_cast<int64_t>(input.absent));
  RONDO_RETURN_IF_ERROR(BuildSumsEpilogue(&bytes));
  RONDO_RETURN_IF_ERROR(BuildTaps(*out_->rhs[0].by_n, -1));
  RONDO_RETURN_IF_ERROR(BuildStrip(*out_->rhs[0].by_n, &channels));
  const int64_t rows = nest.points[kM], step = channels.with.step, lanes = out_->tiling.chunk;
  const double points = static_cast<double>(rows) * static_cast<double>(nest.points[kN]);
  out_->work = points * (0.3 + 0.02 * static_cast<double>(nest.points[kK]));
  out_->acc_row = (lanes + step - 1) / step * step;
  constexpr int64_t kMostAcc = int64_t{16} << 10;  // sums: what the second cache holds beside the input
  out_->block_rows = RowsOfLines(kMostAcc / out_->acc_row);
  out_->tasks = (rows + out_->block_rows - 1) / out_->block_rows * out_->tiling.tiles;
  out_->acc_stride = Bytes(out_->block_rows, out_->acc_row, sizeof(int32_t));
  out_->acc_at = Take(out_->acc_stride);
  bytes.wide_stride = kLanes * static_cast<int64_t>(sizeof(int64_t));
  out_->rhs_at = Take(bytes.wide_stride);
  out_->temp_at = Take(kLanes * static_cast<int64_t>(sizeof(int64_t)));
  bytes.correction_at = Take(Bytes(kLanes, sizeof(int32_t)));
  const int64_t most_columns =
      (channels.points - 1) * channels.point_columns + (channels.horizontal - 1) * channels.tap_columns + 1;
  channels.columns_at = Take(Bytes(most_columns, channels.fours, 4, step));
  channels.tile_steps = (lanes + step - 1) / step;
  const int64_t tiles = out_->tiling.tiles;
  channels.weights_bytes = Bytes(part_.operands[part_.rhs[0]].dtype == DType::kI8 ? 1 : 2,
                                 channels.horizontal, channels.fours, 4, step);
  channels.weights_at = Take(Bytes(channels.weights_bytes, channels.tile_steps, tiles));
  channels.made_at = Take(Bytes(channels.tile_steps, tiles));
  channels.rows_at = Take(Bytes(nest.points[kK] + 1, step));
  channels.absent_at = Take(step);
  channels.sums_at = Take(Bytes(kLanes, tiles, sizeof(int32_t)));
  return Status::Ok();
}

}  // namespace rondo::host
