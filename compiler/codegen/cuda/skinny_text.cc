// Contractions of few rows with 16-bit right sides: the right side is streamed once
// (device/matmul_few_rows.cuh).
#include <algorithm>

#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

// Beyond these, tiles are faster: 16 wide rows took 22 microseconds where tiles took 16.
constexpr int64_t kMostRows = 16, kMostWideRows = 8;
constexpr uint32_t kSlot = 4 * 4096;  // bytes of one stage of one right side: 4 pieces of 16 bytes a thread

std::string Text(int64_t n) { return std::to_string(n); }

}  // namespace

// Blocks of all clusters: as many as the device has room for, though some then take one tile less than
// others. What is streamed bounds them all, and those that end first leave their room to the next kernel's
// copies: 1152 microseconds for a decode step where even rounds on fewer blocks took 1167. (Shares of columns
// that do not begin at a line of 128 bytes are out of the question: 1510.)
int64_t PartText::StreamBlocks(int64_t tiles, int64_t cluster) const {
  return std::min(tiles, std::max<int64_t>(1, static_cast<int64_t>(Processors()) / cluster)) * cluster;
}

// Two blocks split the depth where that still leaves at most one block a multiprocessor (more gain nothing).
// What is estimated as best comes first; no other template does as well with so few rows.
std::vector<ProductOffer> PartText::OfferStreams(const ProductShape& shape) const {
  std::vector<ProductOffer> offers;
  for (int64_t warps : {8, 4}) {
    const StreamSizes sizes = SizesOf(shape, warps);
    if (sizes.stages < 3) continue;
    std::vector<int64_t> clusters = {1};
    if (cluster_ != 0) clusters = {static_cast<int64_t>(cluster_)};
    if (cluster_ == 0 && target_.clusters() && shape.depths >= 4 * sizes.step) {
      const bool two = static_cast<double>(2 * sizes.tiles) <= Processors();
      clusters = two ? std::vector<int64_t>{2, 1} : std::vector<int64_t>{1, 2};
    }
    for (int64_t cluster : clusters) {
      ProductOffer offer;
      offer.choice.by = ProductTemplate::kSkinny;
      offer.choice.warps = warps;
      offer.choice.cluster = cluster;
      offer.cycles = static_cast<double>(offers.size());
      offers.push_back(offer);
    }
  }
  return offers;
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

// The left side in shared memory, sums of the warps, and as many stages as fit.
PartText::StreamSizes PartText::SizesOf(const ProductShape& shape, int64_t warps) const {
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const bool wide = !shape.rhs_along_depth, floats = part_.operands[part_.rhs[0]].dtype == DType::kF32;
  StreamSizes sizes;
  const int64_t tile = (floats ? (wide ? 32 : 16) : (wide ? 64 : 16)) * (8 / warps);
  const int64_t left_bytes =
      floats ? (shape.depths + 31) / 32 * 32 * 4 : ((shape.depths + 127) / 128 * 128 + (wide ? 16 : 32)) * 2;
  sizes.fixed = shape.rows * left_bytes + rights * (warps + 1) * shape.rows * tile * 4;
  sizes.stages =
      std::min<int64_t>(12, (static_cast<int64_t>(target_.shared) - sizes.fixed) / (rights * kSlot));
  sizes.tiles = (shape.columns + tile - 1) / tile;
  sizes.step = (wide ? 16 : floats ? 32 : 64) * warps;
  return sizes;
}

// So little that a stream ends before it has begun: a warp a point takes less (dot_text.cc).
bool PartText::IsLittle(const ProductShape& shape) const {
  constexpr int64_t kMostRows = 4, kMostBytes = 256 << 10;
  const int64_t bytes = shape.columns * shape.depths * static_cast<int64_t>(part_.rhs.size()) *
                        ByteSize(part_.operands[part_.rhs[0]].dtype);
  return shape.rows <= kMostRows && bytes <= kMostBytes && ShapeOfDots().has_value();
}

std::vector<ProductOffer> PartText::OfferSkinny(const ProductShape& shape) const {
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const bool wide = !shape.rhs_along_depth;
  const bool fits = part_.acc_type == TapeType::kF32 && Is16Bit(rhs.dtype) && shape.batches == 1 &&
                    !IsLittle(shape) && part_.operands[part_.lhs].guards.empty() &&
                    shape.rows <= (wide ? kMostWideRows : kMostRows) && shape.rhs_vector == 8 &&
                    shape.depths % 8 == 0 && part_.loops[shape.depth.back()] % 8 == 0 &&
                    shape.columns >= 64 && shape.depths >= 128;
  return fits ? OfferStreams(shape) : std::vector<ProductOffer>();
}

std::vector<ProductOffer> PartText::OfferSkinnyFloats(const ProductShape& shape) const {
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const bool fits = part_.acc_type == TapeType::kF32 && rhs.dtype == DType::kF32 && shape.batches == 1 &&
                    !IsLittle(shape) && part_.operands[part_.lhs].guards.empty() &&
                    shape.rows * static_cast<int64_t>(part_.rhs.size()) <= kMostWideRows &&
                    shape.rhs_vector == 4 && shape.columns >= 32 && shape.depths >= 64;
  return fits ? OfferStreams(shape) : std::vector<ProductOffer>();
}

Status PartText::SetStream(const StreamSizes& sizes, const ProductChoice& choice) {
  RONDO_RETURN_IF_ERROR(SetBlocks(StreamBlocks(sizes.tiles, choice.cluster)));
  launch_.shared =
      static_cast<uint32_t>(sizes.stages * static_cast<int64_t>(part_.rhs.size()) * kSlot + sizes.fixed);
  launch_.cluster = static_cast<uint32_t>(choice.cluster);
  return Status::Ok();
}

Status PartText::SkinnyProduct(const ProductShape& shape, const ProductChoice& choice) {
  headers_.insert("matmul_few_rows");
  const Operand& lhs = part_.operands[part_.lhs];
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const bool wide = !shape.rhs_along_depth;
  const StreamSizes sizes = SizesOf(shape, choice.warps);
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
  Line("skinny_product<" + Text(rights) + ", " + Text(shape.rows) + ", " + Text(choice.warps) + ", " +
       Text(sizes.stages) + ", " + Text(choice.cluster) + ", " + (wide ? "true" : "false") + ", " +
       (bf16 ? "true" : "false") + ", " + (RightIsConstant() ? "true" : "false") + ">(block, " +
       Text(StreamBlocks(sizes.tiles, choice.cluster)) + "u, " + Text(shape.columns) + ", " +
       Text(shape.depths) +
       ", right, "
       "[&](int c) { return column_place(c).a; }, [&](int k) { return depth_place(k).a; }, left_at, "
       "finish);");
  return SetStream(sizes, choice);
}

// In f32: rows by FMA.
Status PartText::SkinnyFloats(const ProductShape& shape, const ProductChoice& choice) {
  headers_.insert("matmul_few_rows_f32");
  const Operand& rhs = part_.operands[part_.rhs[0]];
  const int64_t rights = static_cast<int64_t>(part_.rhs.size());
  const bool wide = !shape.rhs_along_depth;
  const StreamSizes sizes = SizesOf(shape, choice.warps);
  const FlatOperand right = Flatten(part_, rhs);
  Line("const int batch = 0; (void)batch;");
  WriteStreamPlaces(shape, right);
  WriteLeftValue(shape);
  WriteFinish(shape, 1);
  Line("skinny_floats<" + Text(rights) + ", " + Text(shape.rows) + ", " + Text(choice.warps) + ", " +
       Text(sizes.stages) + ", " + Text(choice.cluster) + ", " + (wide ? "true" : "false") + ", " +
       (RightIsConstant() ? "true" : "false") + ">(block, " +
       Text(StreamBlocks(sizes.tiles, choice.cluster)) + "u, " + Text(shape.columns) + ", " +
       Text(shape.depths) +
       ", right, [&](int c) { return column_place(c).a; }, [&](int k) { return depth_place(k).a; }, "
       "left_value, finish);");
  return SetStream(sizes, choice);
}

}  // namespace rondo::cuda
