#include "compiler/codegen/cuda/map/owned_shape.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kMost = 0x7fffffff - 0x100000;  // points and places: their numbers have 32 bits

int64_t Over(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Splits the loops by what moves along them, and the row into vectors. False: places can coincide that the
// indices distinguish, or there are too many.
bool SplitLoops(const PartContext& context, OwnedShape* shape, int64_t* points, int64_t* places) {
  const Part& part = context.part;
  const Operand& out = part.operands[shape->out];
  std::vector<std::pair<int64_t, int64_t>> digits;
  const auto multiply = [](int64_t* product, int64_t extent) {
    if (extent < 1 || *product > kMost / extent) return false;
    *product *= extent;
    return true;
  };
  for (const Indirect& indirect : out.indirects) {
    digits.push_back({std::abs(indirect.stride), indirect.extent});
    if (!multiply(places, indirect.extent)) return false;
  }
  for (size_t l = 0; l < part.loops.size(); ++l) {
    const int64_t stride = out.strides[l];
    if (stride != 0) digits.push_back({std::abs(stride), part.loops[l]});
    const bool walked = stride == 0, kept = !walked && IndicesMove(part, out, l);
    if (!multiply(walked ? points : kept ? &shape->columns : &shape->items, part.loops[l])) return false;
    (walked ? shape->walked : kept ? shape->kept : shape->free).push_back(l);
  }
  return AllDifferent(digits);
}

// Shares the work out: first columns, then places, then parts of rows.
void ShareOut(const PartContext& context, int64_t points, int64_t places, OwnedShape* shape) {
  const GpuTable& gpu = GpuTableOf(context.target);
  OwnedPlaces& layout = shape->layout;
  const bool alone = !context.target.clusters() || points * shape->columns <= gpu.owned_alone;
  layout.cluster = context.cluster != 0 ? static_cast<int>(context.cluster) : alone ? 1 : 8;
  // As many as run at once.
  const bool two = points <= gpu.owned_two_blocks;
  const double blocks = context.Processors() * (two ? 2 * gpu.UsedBy(layout.cluster) : 1);
  const int64_t clusters = std::max<int64_t>(1, static_cast<int64_t>(blocks) / layout.cluster);
  shape->each = Over(shape->columns, std::min(shape->columns, clusters));
  shape->groups = Over(shape->columns, shape->each);
  const int64_t own = places * shape->each;
  layout.owners =
      static_cast<int>(std::clamp<int64_t>(clusters / shape->groups, 1, Over(own, layout.cluster)));
  layout.points = static_cast<int>(points * shape->each);
  layout.places = static_cast<int>(own);
  shape->tiles = std::clamp<int64_t>(clusters / (shape->groups * layout.owners), 1, Over(shape->items, 32));
  layout.lanes = 1;
  while (layout.lanes < 32 && layout.lanes < Over(shape->items, shape->tiles)) layout.lanes *= 2;
}

}  // namespace

std::optional<OwnedShape> OwnedShapeOf(const PartContext& context) {
  const Part& part = context.part;
  const std::optional<size_t> stored = CollidingWrite(part);
  if (!stored) return std::nullopt;
  OwnedShape shape;
  shape.out = *stored;
  int64_t points = 1, places = 1;
  if (!SplitLoops(context, &shape, &points, &places) || shape.columns > kMost / std::max(points, places))
    return std::nullopt;
  const Operand& out = part.operands[shape.out];
  if (!shape.free.empty()) {
    const std::vector<size_t> touched = {shape.out};
    const bool packs = HasVectors(out.dtype) || out.dtype == DType::kI32;  // into the words that are held
    shape.lanes = packs ? LanesFor(context, touched, shape.free.back()) : 1;
    shape.items /= shape.lanes;
  }
  ShareOut(context, points, places, &shape);
  shape.update = UpdateOf(part);
  const bool extreme = shape.update && (shape.update->op == TapeOp::kMax || shape.update->op == TapeOp::kMin);
  shape.layout.splits = shape.update && (IsFloat(out.dtype) || !extreme) ? 1 : 0;
  shape.layout.share = static_cast<int>(shape.lanes * ByteSize(out.dtype));
  const std::vector<size_t> loaded = Touched(part.body, TapeOp::kLoad);
  shape.layout.last_wins = std::none_of(
      loaded.begin(), loaded.end(), [&](size_t index) { return part.operands[index].param == out.param; });
  const auto shared = static_cast<uint32_t>(shape.layout.shared());
  constexpr uint32_t kOfBlock = 1 << 10;  // that each block takes besides
  shape.resident = 2 * (shared + kOfBlock) <= context.target.shared_processor ? 2 : 1;
  if (shared > context.target.shared) return std::nullopt;
  return shape;
}

}  // namespace rondo::cuda
