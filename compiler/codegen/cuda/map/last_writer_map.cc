// Parallel maps whose writes may coincide: of the points that write one place, only the last one writes.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/map/colliding_writes.h"
#include "compiler/codegen/cuda/map/map_variants.h"
#include "compiler/codegen/cuda/operand_access.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"elements"};

struct ScatterShape {
  std::vector<size_t> indexed, free;  // loops that move the indices; the other loops
  int64_t points = 1, each = 1;       // products of their extents
  size_t out = 0;                     // the operand written
  int lanes = 1;
};

// Two points can write one place only if they differ only in `indexed` loops.
std::optional<ScatterShape> ShapeOfScatter(const PartContext& context) {
  const Part& part = context.part;
  const std::optional<size_t> stored = CollidingWrite(part);
  if (!stored) return std::nullopt;
  const Operand& out = part.operands[*stored];
  for (size_t index : Touched(part.body, TapeOp::kLoad)) {
    if (part.operands[index].param == out.param) return std::nullopt;
  }
  ScatterShape shape;
  shape.out = *stored;
  std::vector<std::pair<int64_t, int64_t>> digits;
  for (const Indirect& indirect : out.indirects)
    digits.push_back({std::abs(indirect.stride), indirect.extent});
  for (size_t l = 0; l < part.loops.size(); ++l) {
    const bool indexed = IndicesMove(part, out, l);
    if (!indexed || out.strides[l] != 0) digits.push_back({std::abs(out.strides[l]), part.loops[l]});
    (indexed ? shape.indexed : shape.free).push_back(l);
    (indexed ? shape.points : shape.each) *= part.loops[l];
  }
  if (!AllDifferent(digits) || shape.points > GpuTableOf(context.target).last_writer_points ||
      shape.each > 0x7fffffff)
    return std::nullopt;
  if (!shape.free.empty() && MovesAlong(part, out, shape.free.back()))
    shape.lanes = LanesFor(context, Span<const size_t>(&shape.out, 1), shape.free.back());
  return shape;
}

// Writes the test `again`: the block returns if a later point of its group writes the same place.
void WriteAgain(const PartContext& context, const ScatterShape& shape, PartWriter* writer) {
  const Part& part = context.part;
  const Operand& out = part.operands[shape.out];
  IndexValues(context, out, "own", writer);
  writer->Line("bool again = false;");
  writer->Line("for (u32 other = point + 1 + threadIdx.x; other < " + Text(shape.points) +
               "u; other += kBlockThreads) {");
  writer->CountLoops("other", shape.indexed);
  IndexValues(context, out, "later", writer);
  writer->Line("bool same = true;");
  for (size_t k = 0; k < out.indirects.size(); ++k)
    writer->Line("same = same && own" + Text(k) + " == later" + Text(k) + ";");
  // If the place also moves with the loop itself, only an equal counter writes the same place.
  int64_t below = 1;
  for (size_t n = shape.indexed.size(); n-- > 0;) {
    const int64_t extent = part.loops[shape.indexed[n]];
    if (out.strides[shape.indexed[n]] != 0)
      writer->Line("same = same && point / " + Text(below) + "u % " + Text(extent) + "u == other / " +
                   Text(below) + "u % " + Text(extent) + "u;");
    below *= extent;
  }
  writer->Line("again = again || same; }");
  writer->Line("if (__syncthreads_or(again)) return;");
}

Result<PartLaunch> WriteScatter(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const ScatterShape shape = *ShapeOfScatter(context);
  const int64_t items = shape.each / shape.lanes, runs = (items + kCudaBlock - 1) / kCudaBlock;
  writer->Line("const u32 point = block / " + Text(runs) + "u;");
  writer->DeclareLoops();
  writer->CountLoops("point", shape.indexed);
  WriteAgain(context, shape, writer);
  writer->Line("const u32 item = block % " + Text(runs) + "u * kBlockThreads + threadIdx.x;");
  writer->Line("if (item >= " + Text(items) + "u) return;");
  writer->CountLoops("point", shape.indexed);
  writer->CountLoops("item * " + Text(shape.lanes) + "u", shape.free);
  if (shape.lanes == 1) {
    writer->WriteTape(part.body, "r");
  } else {
    writer->WriteLanes(part.body, "r", shape.free.back(), shape.lanes, "");
  }
  return WithBlocks(shape.points * runs);
}

bool Suits(const PartContext& context) { return ShapeOfScatter(context).has_value(); }

}  // namespace

constinit const KernelVariant kLastWriterMap = {VariantId::kAny, kHeaders,
                                                OneCandidate<VariantId::kAny, Suits>, WriteScatter};

}  // namespace rondo::cuda
