// Matmuls by packed weights (Variant::kPacked).
#include "drivers/host/matmul/matmul_builders.h"
#include "drivers/host/matmul/operands.h"
#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {

namespace {

// Scales or zeros are read by tiles of the weight and along k, whatever the lanes of the columns are.
Status BuildScales(PartContext& c, uint16_t operand, const Access** out) {
  const Access* of_columns = nullptr;
  RONDO_RETURN_IF_ERROR(c.BuildAccess(operand, c.tiling, &of_columns));
  Access* made = c.arena.New<Access>(1).data();
  if (made == nullptr) return c.NoMemory();
  *made = *of_columns;
  made->load = c.engine.load[static_cast<int>(made->dtype)][static_cast<int>(LaneKind::kStride)];
  *out = made;
  return Status::Ok();
}

}  // namespace

bool FitsPacked(const PartContext& c) { return c.part.packed.type != PackedType::kNone; }

Status BuildPacked(PartContext& c, PartProgram** out) {
  const GrowingList<TapeInst> tape = LhsTape(c);
  if (!tape.ok()) return c.NoMemory();
  if (c.TapeDepends(Tape(tape.data(), tape.size()), kN))
    return c.Fail("a left side that moves with the columns");
  constexpr int64_t kMostBytes = int64_t{8} << 20;  // of a block of A
  const Nest& nest = c.nest;
  const PackedShape shape = {nest.points[kN], nest.points[kK], c.part.packed.block,
                             BitsOf(c.part.packed.type)};
  PackedPart* p = c.New<PackedPart>(Variant::kPacked);
  float* values = c.arena.New<float>(256).data();
  if (p == nullptr || values == nullptr) return c.NoMemory();
  *out = p;
  p->tiling = c.tiling;
  p->work = MatmulWork(nest).Packed();
  PackedProgram* packed = &p->packed;
  packed->stride = shape.Stride();
  packed->piece = shape.piece();
  packed->pieces = shape.pieces();
  packed->block = shape.block;
  packed->blocks = shape.blocks();
  packed->type = c.part.packed.type;
  packed->bits = static_cast<uint32_t>(shape.bits);
  packed->mask = (1u << shape.bits) - 1;
  packed->zero = static_cast<float>(c.part.packed.zero);
  for (uint32_t code = 0; code <= packed->mask; ++code) values[code] = PackedValue(c.part.packed.type, code);
  if (c.part.packed.type > PackedType::kU8) packed->values = values;
  if ((shape.block & (shape.block - 1)) == 0)
    packed->block_shift = __builtin_ctzll(static_cast<uint64_t>(shape.block));
  const bool by_column = shape.block >= shape.k;
  packed->whole_pieces = by_column || shape.block % shape.piece() == 0;
  const int64_t slices = shape.piece() / 2 / 16;  // of 16 numbers, from one word
  int64_t together = slices;
  while (!by_column && shape.block % (16 * together) != 0) together /= 2;
  packed->groups = static_cast<int>(slices / together);

  RONDO_RETURN_IF_ERROR(BuildLeft(c, &p->left));
  p->num_rhs = static_cast<int>(c.part.rhs.size());
  for (size_t j = 0; j < c.part.rhs.size(); ++j) {
    RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.rhs[j], c.tiling, &packed->codes[j]));
    RONDO_RETURN_IF_ERROR(BuildScales(c, c.part.scales[j], &packed->scales[j]));
    if (!c.part.zeros.empty()) RONDO_RETURN_IF_ERROR(BuildScales(c, c.part.zeros[j], &packed->zeros[j]));
    // Numbers along k are counted as in A.
    const Access& codes = *packed->codes[j];
    int64_t inner = 1;
    for (int e = nest.first[kK + 1] - 1; e >= nest.first[kK]; --e) {
      int64_t step = nest.extent[e] == 1 ? inner : 0;
      for (int i = 0; i < codes.num_loops; ++i) {
        if (codes.loop[i] == e) step = codes.step[i];
      }
      if (step != inner) return c.Fail("packed weights whose numbers do not lie in the order of its loops");
      inner *= nest.extent[e];
    }
  }
  RONDO_RETURN_IF_ERROR(BuildTape(c, c.part.epilogue, c.tiling, {}, &p->epilogue));
  const int64_t rows = nest.points[kM];
  const int64_t depths = (shape.k + kPackedDepth - 1) / kPackedDepth,
                row_bytes = depths * (kPackedDepth + 16) * 4;
  p->left.row = (shape.k + kLanes - 1) / kLanes * kLanes + 16;
  p->block_rows = rows;
  if (rows > kMostInRegisters) {
    int64_t blocks = kMostBytes / (row_bytes * c.engine.rows);
    blocks = blocks < 2 ? 2 : blocks > 16 ? 16 : blocks;
    constexpr int64_t kExtra = 12;  // the time to unpack B, in rows
    const int64_t others = Bytes(nest.points[0], c.tiling.tiles);
    p->block_rows =
        RowsOfBlock({rows, blocks * c.engine.rows, c.engine.rows, kExtra, others}, c.sharing.Shares(p->work));
  }
  p->tasks = nest.points[0] * ((rows + p->block_rows - 1) / p->block_rows) * c.tiling.tiles;
  if (rows > kMostInRegisters) {
    p->left.at = c.Take(Bytes(p->block_rows, row_bytes));
    p->temp_at = c.Take(Bytes(p->left.row, 4));
    p->rhs_at = c.Take(kMostPanelColumns * kPackedDepth * 4);
  } else {
    p->left.at = c.Take(Bytes(p->block_rows, p->left.row, 4));
    packed->rows_at = c.Take(Bytes(p->block_rows, shape.pieces(), 32 / shape.bits + packed->groups, 64));
    p->rhs_at = c.Take(kPackedColumns * kPackedDepth * 4);
  }
  p->acc_stride = Bytes(p->block_rows, kLanes, 4);
  p->acc_at = c.Take(Bytes(p->acc_stride, p->num_rhs));
  return Status::Ok();
}

}  // namespace rondo::host
