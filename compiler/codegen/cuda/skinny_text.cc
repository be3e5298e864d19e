// Contractions of few rows with 16-bit right sides: the right side is streamed once (skinny_product of the
// prelude).
#include <algorithm>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

// Beyond these, tiles are faster: 16 wide rows took 22 microseconds where tiles took 16.
constexpr int64_t kMostRows = 16, kMostWideRows = 8;
constexpr uint32_t kSlot = 4 * 4096;  // bytes of one stage of one right side: 4 pieces of 16 bytes a thread

bool Is16Bit(DType type) { return type == DType::kF16 || type == DType::kBF16; }

std::string Text(int64_t n) { return std::to_string(n); }

}  // namespace

// Tiles of columns over the device: two blocks split the depth where that still leaves at most one block a
// multiprocessor (more gain nothing), and tiles spread evenly over the fewest rounds.
PartText::StreamGrid PartText::GridOf(int64_t tiles, int64_t depths, int64_t step) const {
  const double processors = std::max(1.0, share_ * static_cast<double>(target_.processors));
  StreamGrid grid;
  if (target_.clusters() && static_cast<double>(2 * tiles) <= processors && depths >= 4 * step)
    grid.cluster = 2;
  if (target_.tuning.cluster != 0) grid.cluster = target_.tuning.cluster;
  if (cluster_ != 0) grid.cluster = cluster_;
  const int64_t groups =
      std::min(tiles, std::max<int64_t>(1, static_cast<int64_t>(processors) / grid.cluster));
  const int64_t rounds = (tiles + groups - 1) / groups;
  grid.blocks = (tiles + rounds - 1) / rounds * grid.cluster;
  return grid;
}

void PartText::WriteStreamPlaces(const ProductShape& shape, const FlatOperand& right) {
  WritePlace("column_place", shape.column, right, false);
  WritePlace("depth_place", shape.depth, right, false);
  std::string bases;
  for (uint16_t index : part_.rhs) {
    const Operand& operand = part_.operands[index];
    bases += (bases.empty() ? "p" : ", p") + Text(operand.param) + " + " +
             Text(ByteSize(operand.dtype) * operand.offset);
  }
  Line("const char* const right[] = {" + bases + "};");
}

Result<bool> PartText::SkinnyProduct(const ProductShape& shape) {
  const Operand& lhs = part_.operands[part_.lhs];
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const bool wide = !shape.rhs_along_depth;
  bool fits = part_.acc_type == TapeType::kF32 && Is16Bit(rhs.dtype) && shape.batches == 1 &&
              lhs.guards.empty() && shape.rows <= (wide ? kMostWideRows : kMostRows) &&
              shape.rhs_vector == 8 && shape.depths % 8 == 0 && part_.loops[shape.depth.back()] % 8 == 0 &&
              shape.columns >= 64 && shape.depths >= 128;
  if (!fits) return false;
  // The left side in shared memory, sums of the warps, and as many stages as fit.
  const int64_t pitch = (shape.depths + 127) / 128 * 128 + (wide ? 16 : 32);
  const int64_t warps = target_.tuning.warps != 0 ? target_.tuning.warps : 8,
                tile = (wide ? 64 : 16) * (8 / warps), points = shape.rows * tile;
  const int64_t lefts = shape.rows * pitch * 2, sums = rights * (warps + 1) * points * 4;
  // One block a multiprocessor: two would, now and then, share one while another has none, and gain nothing.
  const int64_t resident = target_.tuning.resident != 0 ? target_.tuning.resident : 1;
  const int64_t room = resident == 1 ? target_.shared : target_.shared_processor / resident - 1024;
  const int64_t most = target_.tuning.stages != 0 ? target_.tuning.stages : 12;
  const int64_t stages = std::min(most, (room - lefts - sums) / (rights * kSlot));
  if (stages < 3) return false;
  const int64_t tiles = (shape.columns + tile - 1) / tile, step = (wide ? 16 : 64) * warps;
  const StreamGrid grid = GridOf(tiles, shape.depths, step);

  const FlatOperand right = Flatten(part_, rhs);
  const bool bf16 = rhs.dtype == DType::kBF16;
  Line("const int batch = 0; (void)batch;");
  WriteStreamPlaces(shape, right);
  WriteLeftValue(shape);
  Line("auto left_at = [&](int row, int depth) -> uint4 {");
  if (part_.prologue.empty() && lhs.dtype == rhs.dtype && lhs.indirects.empty() && lhs.guards.empty() &&
      shape.lhs_along_depth && shape.lhs_vector == 8) {
    const FlatOperand left = Flatten(part_, lhs);
    WritePlace("row_place", shape.row, left, true);
    WritePlace("left_depth_place", shape.depth, left, false);
    Line("return *(const uint4*)(p" + Text(lhs.param) +
         " + 2 * (row_place(row).a + left_depth_place(depth).a)); };");
  } else {
    const char* type = bf16 ? "true" : "false";
    std::string words;
    for (int w = 0; w < 4; ++w) {
      words += std::string(w == 0 ? "" : ", ") + "attention_pack<" + type + ">(left_value(row, depth + " +
               Text(2 * w) + "), left_value(row, depth + " + Text(2 * w + 1) + "))";
    }
    Line("return make_uint4(" + words + "); };");
  }
  WriteFinish(shape, 1);
  Line("skinny_product<" + Text(rights) + ", " + Text(shape.rows) + ", " + Text(warps) + ", " + Text(stages) +
       ", " + Text(grid.cluster) + ", " + (wide ? "true" : "false") + ", " + (bf16 ? "true" : "false") +
       ", " + (RightIsConstant() ? "true" : "false") + ">(block, " + Text(grid.blocks) + "u, " +
       Text(shape.columns) + ", " + Text(shape.depths) +
       ", right, "
       "[&](int c) { return column_place(c).a; }, [&](int k) { return depth_place(k).a; }, left_at, "
       "finish);");
  RONDO_RETURN_IF_ERROR(SetBlocks(grid.blocks));
  launch_.shared = static_cast<uint32_t>(stages * rights * kSlot + lefts + sums);
  launch_.cluster = static_cast<uint32_t>(grid.cluster);
  launch_.resident = static_cast<uint32_t>(resident);
  return true;
}

// In f32: rows by FMA.
Result<bool> PartText::SkinnyFloats(const ProductShape& shape) {
  const Operand& lhs = part_.operands[part_.lhs];
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const bool wide = !shape.rhs_along_depth;
  bool fits = part_.acc_type == TapeType::kF32 && rhs.dtype == DType::kF32 && shape.batches == 1 &&
              lhs.guards.empty() && shape.rows * rights <= kMostWideRows && shape.rhs_vector == 4 &&
              shape.columns >= 32 && shape.depths >= 64;
  if (!fits) return false;
  const int64_t warps = 8, tile = wide ? 32 : 16, points = shape.rows * tile;
  const int64_t lefts = shape.rows * ((shape.depths + 31) / 32 * 32) * 4,
                sums = rights * (warps + 1) * points * 4;
  const int64_t room = target_.shared;
  const int64_t stages = std::min<int64_t>(12, (room - lefts - sums) / (rights * kSlot));
  if (stages < 3) return false;
  const int64_t tiles = (shape.columns + tile - 1) / tile, step = (wide ? 16 : 32) * warps;
  const StreamGrid grid = GridOf(tiles, shape.depths, step);

  const FlatOperand right = Flatten(part_, rhs);
  Line("const int batch = 0; (void)batch;");
  WriteStreamPlaces(shape, right);
  WriteLeftValue(shape);
  WriteFinish(shape, 1);
  Line("skinny_floats<" + Text(rights) + ", " + Text(shape.rows) + ", " + Text(warps) + ", " + Text(stages) +
       ", " + Text(grid.cluster) + ", " + (wide ? "true" : "false") + ", " +
       (RightIsConstant() ? "true" : "false") + ">(block, " + Text(grid.blocks) + "u, " +
       Text(shape.columns) + ", " + Text(shape.depths) +
       ", right, [&](int c) { return column_place(c).a; }, [&](int k) { return depth_place(k).a; }, "
       "left_value, finish);");
  RONDO_RETURN_IF_ERROR(SetBlocks(grid.blocks));
  launch_.shared = static_cast<uint32_t>(stages * rights * kSlot + lefts + sums);
  launch_.cluster = static_cast<uint32_t>(grid.cluster);
  return true;
}

}  // namespace rondo::cuda
