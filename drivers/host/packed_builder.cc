// Contractions by weights in fewer bits (Path::kPacked).
#include "drivers/host/part_builder.h"

namespace rondo::host {

Status PartBuilder::BuildPacked() {
  constexpr int kM = 1, kN = 2, kK = 3;             // groups of the nest
  constexpr int64_t kMostBytes = int64_t{8} << 20;  // of a block of the left side
  const Nest& nest = out_->nest;
  const PackedShape shape = {nest.points[kN], nest.points[kK], part_.packed.block, BitsOf(part_.packed.type)};
  PackedProgram* packed = arena_.New<PackedProgram>(1).data();
  float* values = arena_.New<float>(256).data();
  if (packed == nullptr || values == nullptr) return NoMemory();
  packed->stride = shape.Stride();
  packed->piece = shape.piece();
  packed->pieces = shape.pieces();
  packed->block = shape.block;
  packed->blocks = shape.blocks();
  packed->type = part_.packed.type;
  packed->bits = static_cast<uint32_t>(shape.bits);
  packed->mask = (1u << shape.bits) - 1;
  packed->zero = static_cast<float>(part_.packed.zero);
  for (uint32_t code = 0; code <= packed->mask; ++code) values[code] = PackedValue(part_.packed.type, code);
  if (part_.packed.type > PackedType::kU8) packed->values = values;
  if ((shape.block & (shape.block - 1)) == 0)
    packed->block_shift = __builtin_ctzll(static_cast<uint64_t>(shape.block));
  const bool by_column = shape.block >= shape.k;
  packed->whole_pieces = by_column || shape.block % shape.piece() == 0;
  const int64_t slices = shape.piece() / 2 / 16;  // of 16 numbers, of a word
  int64_t together = slices;
  while (!by_column && shape.block % (16 * together) != 0) together /= 2;
  packed->groups = static_cast<int>(slices / together);

  RONDO_RETURN_IF_ERROR(BuildLeft());
  out_->num_rhs = static_cast<int>(part_.rhs.size());
  for (size_t j = 0; j < part_.rhs.size(); ++j) {
    RONDO_RETURN_IF_ERROR(BuildAccess(part_.rhs[j], out_->tiling, &packed->codes[j]));
    RONDO_RETURN_IF_ERROR(BuildAccess(part_.scales[j], out_->tiling, &packed->scales[j]));
    if (!part_.zeros.empty())
      RONDO_RETURN_IF_ERROR(BuildAccess(part_.zeros[j], out_->tiling, &packed->zeros[j]));
    // Numbers along k count as the left side's do.
    const Access& codes = *packed->codes[j];
    int64_t inner = 1;
    for (int e = nest.first[kK + 1] - 1; e >= nest.first[kK]; --e) {
      int64_t step = nest.extent[e] == 1 ? inner : 0;
      for (int i = 0; i < codes.num_loops; ++i) {
        if (codes.loop[i] == e) step = codes.step[i];
      }
      if (step != inner) return Fail("packed weights whose numbers do not lie in the order of its loops");
      inner *= nest.extent[e];
    }
  }
  RONDO_RETURN_IF_ERROR(BuildTape(part_.epilogue, out_->tiling, {}, &out_->program));
  out_->path = Path::kPacked;
  out_->packed = packed;
  const int64_t rows = nest.points[kM];
  const int64_t depths = (shape.k + kPackedDepth - 1) / kPackedDepth,
                row_bytes = depths * (kPackedDepth + 16) * 4;
  out_->lhs_row = (shape.k + kLanes - 1) / kLanes * kLanes + 16;
  out_->block_rows = rows;
  if (rows > kMostInRegisters) {
    int64_t blocks = kMostBytes / (row_bytes * engine_.rows);
    blocks = blocks < 2 ? 2 : blocks > 16 ? 16 : blocks;
    constexpr int64_t kExtra = 12;  // rows' time to unpack the right side
    const int64_t others = Bytes(nest.points[0], out_->tiling.tiles);
    out_->block_rows =
        RowsOfBlock({rows, blocks * engine_.rows, engine_.rows, kExtra, others}, sharing_.Shares(out_->work));
  }
  out_->tasks = nest.points[0] * ((rows + out_->block_rows - 1) / out_->block_rows) * out_->tiling.tiles;
  if (rows > kMostInRegisters) {
    out_->lhs_at = Take(Bytes(out_->block_rows, row_bytes));
    out_->temp_at = Take(Bytes(out_->lhs_row, 4));
    out_->rhs_at = Take(kMostPanelColumns * kPackedDepth * 4);
  } else {
    out_->lhs_at = Take(Bytes(out_->block_rows, out_->lhs_row, 4));
    packed->rows_at = Take(Bytes(out_->block_rows, shape.pieces(), 32 / shape.bits + packed->groups, 64));
    out_->rhs_at = Take(kPackedColumns * kPackedDepth * 4);
  }
  out_->acc_stride = Bytes(out_->block_rows, kLanes, 4);
  out_->acc_at = Take(Bytes(out_->acc_stride, out_->num_rhs));
  return Status::Ok();
}

}  // namespace rondo::host
