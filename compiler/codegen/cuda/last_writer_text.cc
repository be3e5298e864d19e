// Maps whose writes may coincide, run in parallel: of the points that write one place, only the last one
// writes.
#include <algorithm>

#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/part_text.h"

namespace rondo::cuda {

namespace {

constexpr int64_t kMostPoints = 1 << 16;  // each looks at all later ones

std::string Text(int64_t n) { return std::to_string(n); }

// Whether sums of one multiple of each stride are all different.
bool AllDifferent(std::vector<std::pair<int64_t, int64_t>> digits) {
  std::sort(digits.begin(), digits.end());
  int64_t reach = 0;
  for (const auto& [stride, extent] : digits) {
    if (extent == 1) continue;
    if (stride <= reach || extent > (INT64_MAX - reach) / stride) return false;
    reach += stride * (extent - 1);
  }
  return true;
}

}  // namespace

// Two points can write one place only if they differ in nothing but `indexed` loops.
std::optional<PartText::ScatterShape> PartText::ShapeOfScatter() const {
  const std::vector<size_t> stored = Touched(part_.body, TapeOp::kStore);
  if (!part_.sequential || stored.size() != 1) return std::nullopt;
  const Operand& out = part_.operands[stored[0]];
  if (out.indirects.empty() || !out.guards.empty()) return std::nullopt;
  for (size_t index : Touched(part_.body, TapeOp::kLoad)) {
    if (part_.operands[index].param == out.param) return std::nullopt;
  }
  ScatterShape shape;
  shape.out = stored[0];
  std::vector<std::pair<int64_t, int64_t>> digits;
  for (const Indirect& indirect : out.indirects) {
    const Operand& index = part_.operands[indirect.operand];
    if (!index.guards.empty() || !index.indirects.empty() || index.param == out.param) return std::nullopt;
    digits.push_back({std::abs(indirect.stride), indirect.extent});
  }
  for (size_t l = 0; l < part_.loops.size(); ++l) {
    const bool indexed = std::any_of(
        out.indirects.begin(), out.indirects.end(),
        [&](const Indirect& indirect) { return part_.operands[indirect.operand].strides[l] != 0; });
    if (!indexed || out.strides[l] != 0) digits.push_back({std::abs(out.strides[l]), part_.loops[l]});
    (indexed ? shape.indexed : shape.free).push_back(l);
    (indexed ? shape.points : shape.each) *= part_.loops[l];
  }
  if (!AllDifferent(digits) || shape.points > kMostPoints || shape.each > 0x7fffffff) return std::nullopt;
  if (!shape.free.empty() && MovesAlong(out, shape.free.back()))
    shape.lanes = LanesFor(Span<const size_t>(&shape.out, 1), shape.free.back());
  return shape;
}

// Declares the values of the indices at the current point, counted from the front: `name`0, `name`1, ...
void PartText::IndexValues(const Operand& out, const std::string& name) {
  headers_.insert("elements");
  for (size_t k = 0; k < out.indirects.size(); ++k) {
    const Indirect& indirect = out.indirects[k];
    const std::string value = name + Text(static_cast<int64_t>(k));
    const Operand& index = part_.operands[indirect.operand];
    Line("i64 " + value + " = ld_" + rondo::Name(index.dtype) + "(p" + Text(index.param) + ", " +
         AffineText(index) + ");");
    if (indirect.wrap) Line("if (" + value + " < 0) " + value + " += " + Text(indirect.extent) + ";");
  }
}

Status PartText::Scatter(const ScatterShape& shape) {
  const Operand& out = part_.operands[shape.out];
  const int64_t items = shape.each / shape.lanes, runs = (items + kCudaBlock - 1) / kCudaBlock;
  Line("const u32 point = block / " + Text(runs) + "u;");
  for (size_t l = 0; l < part_.loops.size(); ++l)
    Line("i64 i" + Text(static_cast<int64_t>(l)) + " = 0; (void)i" + Text(static_cast<int64_t>(l)) + ";");
  CountLoops("point", shape.indexed);
  IndexValues(out, "own");
  Line("bool again = false;");
  Line("for (u32 other = point + 1 + threadIdx.x; other < " + Text(shape.points) + "u; other += 256) {");
  CountLoops("other", shape.indexed);
  IndexValues(out, "later");
  Line("bool same = true;");
  for (size_t k = 0; k < out.indirects.size(); ++k)
    Line("same = same && own" + Text(static_cast<int64_t>(k)) + " == later" + Text(static_cast<int64_t>(k)) +
         ";");
  // Where the place also moves with the loop itself, only the same count writes the same place.
  int64_t below = 1;
  for (size_t n = shape.indexed.size(); n-- > 0;) {
    const int64_t extent = part_.loops[shape.indexed[n]];
    if (out.strides[shape.indexed[n]] != 0)
      Line("same = same && point / " + Text(below) + "u % " + Text(extent) + "u == other / " + Text(below) +
           "u % " + Text(extent) + "u;");
    below *= extent;
  }
  Line("again = again || same; }");
  Line("if (__syncthreads_or(again)) return;");
  Line("const u32 item = block % " + Text(runs) + "u * 256 + threadIdx.x;");
  Line("if (item >= " + Text(items) + "u) return;");
  CountLoops("point", shape.indexed);
  CountLoops("item * " + Text(shape.lanes) + "u", shape.free);
  if (shape.lanes == 1) {
    WriteTape(part_.body, "r");
  } else {
    WriteLanes(part_.body, "r", shape.free.back(), shape.lanes, "");
  }
  return SetBlocks(shape.points * runs);
}

}  // namespace rondo::cuda
