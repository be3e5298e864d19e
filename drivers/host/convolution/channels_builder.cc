// Depthwise convolutions and pools over contiguous channels (Variant::kChannels).
#include "drivers/host/convolution/convolution_builders.h"
#include "drivers/host/matmul/operands.h"

namespace rondo::host {

// Requires f32, one input channel for each output channel, and no index from data.
bool FitsChannels(const PartContext& c) {
  const Nest& nest = c.nest;
  if (!c.channels_last || c.part.rhs.size() > 1 || c.part.acc_type != TapeType::kF32 || nest.first[kM] != 1 ||
      nest.points[kOuter] != 1) {
    return false;
  }
  if (c.part.loops[2] != 1 || c.part.loops[3 + c.part.n] != 1) return false;
  constexpr int64_t kMostTaps = 1 << 12;
  if (nest.points[kK] > kMostTaps) return false;
  const Operand& input = c.part.operands[c.part.lhs];
  const bool pool = c.part.combine != Combine::kProduct;
  bool fits = input.dtype == DType::kF32 && input.indirects.empty() && (pool || input.absent == 0);
  constexpr size_t kGroup = 1;
  for (const Guard& guard : input.guards) fits &= guard.strides[kGroup] == 0;
  if (!fits || pool) return fits;
  const Operand& weight = c.part.operands[c.part.rhs[0]];
  return weight.dtype == DType::kF32 && weight.indirects.empty() && weight.guards.empty();
}

Status BuildChannels(PartContext& c, PartProgram** out) {
  ChannelsPart* p = c.New<ChannelsPart>(Variant::kChannels);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  const Nest& nest = c.nest;
  p->tiling = c.tiling;
  p->combine = c.part.combine;
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.lhs, c.tiling, &p->rhs[0].by_n));
  if (!IsPool(c)) RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.rhs[0], c.tiling, &p->weight));
  RONDO_RETURN_IF_ERROR(BuildEpilogue(c, p));
  RONDO_RETURN_IF_ERROR(BuildTaps(c, *p->rhs[0].by_n, p->weight, -1, &p->taps));
  const int64_t rows = nest.points[kM];
  const double points = static_cast<double>(rows) * static_cast<double>(nest.points[kN]);
  p->work = points * (0.3 + 0.05 * static_cast<double>(nest.points[kK]));
  p->acc_row = AccumulatorRow(c.tiling, c.engine);
  constexpr int64_t kMostAcc = int64_t{16} << 10;  // floats that fit an L2 cache beside the input
  p->block_rows = RowsOfLines(c, p->work, kMostAcc / p->acc_row);
  p->tasks = (rows + p->block_rows - 1) / p->block_rows * c.tiling.tiles;
  p->acc_stride = p->block_rows * p->acc_row * 4;
  p->acc_at = c.Take(p->acc_stride);
  p->taps_at = c.Take(Bytes(nest.points[kK], 2, sizeof(int64_t)));
  return Status::Ok();
}

}  // namespace rondo::host
