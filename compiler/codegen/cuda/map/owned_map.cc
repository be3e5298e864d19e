// Parallel maps whose writes may coincide, for any update: each place belongs to one warp, which applies its
// points in order.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "compiler/codegen/cuda/map/colliding_writes.h"
#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"elements", "owned_places", "vectors"};

constexpr int64_t kMost = 0x7fffffff - 0x10000;  // points and places: their numbers have 32 bits

struct OwnedShape {
  std::vector<size_t> walked;                  // loops whose points may meet
  std::vector<size_t> kept;                    // loops that move the indices and the place
  std::vector<size_t> free;                    // loops that move only the place
  int64_t points = 1, columns = 1, items = 1;  // products of their extents; `items`: of `free`, in vectors
  int64_t places = 1;                          // number of places that the indices distinguish
  size_t out = 0;
  int lanes = 1;
  int64_t owners = 1, tiles = 1;  // blocks that share the places, and the items
};

// Lanes of a warp for each point.
int LanesOfPoint(const OwnedShape& shape) {
  int lanes = 1;
  while (lanes < 32 && lanes < shape.items) lanes *= 2;
  return lanes;
}

// One block on each multiprocessor reads all indices; where there are few indices, more blocks do.
void ShareOut(const PartContext& context, OwnedShape* shape) {
  constexpr int64_t kFew = 1 << 14, kSome = 1 << 16, kWarp = 32;
  const auto processors = static_cast<int64_t>(context.Processors());
  const int64_t blocks = processors * (shape->points <= kFew ? 4 : shape->points <= kSome ? 2 : 1);
  const auto over = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  shape->owners = std::clamp<int64_t>(over(blocks, shape->columns), 1, shape->places);
  const int64_t rest = blocks / (shape->owners * shape->columns);
  shape->tiles = std::clamp<int64_t>(rest, 1, over(shape->items, kWarp));
}

std::optional<OwnedShape> ShapeOf(const PartContext& context) {
  const Part& part = context.part;
  const std::optional<size_t> stored = CollidingWrite(part);
  if (!stored) return std::nullopt;
  const Operand& out = part.operands[*stored];
  OwnedShape shape;
  shape.out = *stored;
  std::vector<std::pair<int64_t, int64_t>> digits;
  for (const Indirect& indirect : out.indirects) {
    digits.push_back({std::abs(indirect.stride), indirect.extent});
    if (shape.places > kMost / std::max<int64_t>(1, indirect.extent)) return std::nullopt;
    shape.places *= indirect.extent;
  }
  for (size_t l = 0; l < part.loops.size(); ++l) {
    const int64_t stride = out.strides[l];
    if (stride != 0) digits.push_back({std::abs(stride), part.loops[l]});
    int64_t* const points = stride == 0                 ? &shape.points
                            : IndicesMove(part, out, l) ? &shape.columns
                                                        : &shape.items;
    if (*points > kMost / std::max<int64_t>(1, part.loops[l])) return std::nullopt;
    *points *= part.loops[l];
    (stride == 0 ? shape.walked : IndicesMove(part, out, l) ? shape.kept : shape.free).push_back(l);
  }
  if (!AllDifferent(digits) || shape.points * shape.columns * shape.items * shape.places == 0)
    return std::nullopt;
  if (!shape.free.empty()) {
    const std::vector<size_t> touched = {shape.out};
    const bool packs = HasVectors(out.dtype) || out.dtype == DType::kI32;  // into the words that are held
    shape.lanes = packs ? LanesFor(context, touched, shape.free.back()) : 1;
    shape.items /= shape.lanes;
  }
  ShareOut(context, &shape);
  return shape;
}

// Prefetches what a point reads, the written places excepted; of row elements, lines of 128 bytes.
void WriteFetch(const PartContext& context, const OwnedShape& shape, PartWriter* writer) {
  constexpr int64_t kLine = 128, kMostLines = 4;
  const Part& part = context.part;
  writer->Line("const auto fetch = [&](u32 point) { (void)point;");
  writer->CountLoops("point", shape.walked);
  if (!shape.free.empty()) writer->CountLoops("from * " + Text(shape.lanes) + "u", shape.free);
  for (size_t index : Touched(part.body, TapeOp::kLoad)) {
    const Operand& operand = part.operands[index];
    if (operand.param == part.operands[shape.out].param || !IsPlain(operand)) continue;
    const bool row = !shape.free.empty() && operand.strides[shape.free.back()] == 1;
    const int64_t bytes =
        row ? ByteSize(operand.dtype) * std::min(part.loops[shape.free.back()], shape.items * shape.lanes)
            : 1;
    for (int64_t at = 0; at < std::min(bytes, kMostLines * kLine); at += kLine)
      writer->Line("fetch_line(" + writer->AddressText(static_cast<uint16_t>(index)) + " + " + Text(at) +
                   ");");
  }
  writer->Line("};");
}

// Writes the loop that updates the elements of one place, in registers, by the points of `points` in order.
void WritePlace(const PartContext& context, const OwnedShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  const Operand& out = part.operands[shape.out];
  const int64_t bytes = shape.lanes * ByteSize(out.dtype), words = (bytes + 3) / 4;
  const std::string type(Name(out.dtype)), param = "p" + Text(out.param);
  writer->Line("__align__(16) u32 held[" + Text(words) + "];");
  writer->Address(out);
  writer->Line("if (!ok) continue;");
  if (shape.lanes > 1) {
    writer->Line("load_words<" + Text(words) + ">(" + param + " + a * " + Text(ByteSize(out.dtype)) +
                 ", held);");
  } else {
    writer->Line("st_" + type + "((char*)held, 0, ld_" + type + "(" + param + ", a));");
  }
  writer->scope.held.assign(part.operands.size(), "");
  for (size_t index = 0; index < part.operands.size(); ++index) {
    if (part.operands[index].param == out.param) writer->scope.held[index] = "held";
  }
  writer->Line("#pragma unroll 8");
  writer->Line("for (int n = 0; n < count; ++n) {");
  writer->CountLoops("points[n]", shape.walked);
  if (shape.lanes == 1) {
    writer->WriteTape(part.body, "r");
  } else {
    writer->WriteLanes(part.body, "r", shape.free.back(), shape.lanes, "");
  }
  writer->Line("}");
  writer->scope.held.clear();
  if (shape.lanes > 1) {
    writer->Line("store_words<" + Text(words) + ">(" + param + " + a * " + Text(ByteSize(out.dtype)) +
                 ", held);");
  } else {
    writer->Line("st_" + type + "(" + param + ", a, ld_" + type + "((const char*)held, 0));");
  }
}

Result<PartLaunch> WriteOwned(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const OwnedShape shape = *ShapeOf(context);
  const Operand& out = part.operands[shape.out];
  const int64_t each = (shape.items + shape.tiles - 1) / shape.tiles;
  writer->Line("const u32 owner = block % " + Text(shape.owners) + "u, column = block / " +
               Text(shape.owners) + "u % " + Text(shape.columns) + "u;");
  writer->Line("const u32 from = block / " + Text(shape.owners * shape.columns) + "u * " + Text(each) + "u;");
  writer->Line("const u32 end = from + " + Text(each) + "u < " + Text(shape.items) + "u ? from + " +
               Text(each) + "u : " + Text(shape.items) + "u;");
  writer->DeclareLoops();
  writer->CountLoops("column", shape.kept);
  writer->Line("const auto place_at = [&](u32 point) -> u32 {");
  writer->CountLoops("point", shape.walked);
  IndexValues(context, out, "value", writer);
  // Indices out of range get an extra place, after all others.
  writer->Line("u32 place = 0; bool there = true;");
  for (size_t k = 0; k < out.indirects.size(); ++k) {
    const std::string value = "value" + Text(k), extent = Text(out.indirects[k].extent);
    writer->Line("there = there && " + value + " >= 0 && " + value + " < " + extent + "; place = place * " +
                 extent + "u + (u32)" + value + ";");
  }
  writer->Line("return there ? place : " + Text(shape.places) + "u; };");
  WriteFetch(context, shape, writer);
  const int lanes = LanesOfPoint(shape);
  writer->Line("const auto apply = [&](const u32* points, int count, u32 lane) {");
  writer->CountLoops("points[0]", shape.walked);
  writer->Line("for (u32 item = from + lane; item < end; item += " + Text(lanes) + "u) {");
  if (!shape.free.empty()) writer->CountLoops("item * " + Text(shape.lanes) + "u", shape.free);
  WritePlace(context, shape, writer);
  writer->Line("} };");
  writer->Line("take_owned_points<" + Text(shape.points) + "u, " + Text(shape.owners) + "u, " + Text(lanes) +
               ">(owner, place_at, fetch, apply);");
  return WithBlocks(shape.owners * shape.columns * shape.tiles);
}

bool Suits(const PartContext& context) { return ShapeOf(context).has_value(); }

}  // namespace

constinit const KernelVariant kOwnedMap = {VariantId::kAny, kHeaders, OneCandidate<VariantId::kAny, Suits>,
                                           WriteOwned};

}  // namespace rondo::cuda
