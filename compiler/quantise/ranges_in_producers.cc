// Kernels that compute an image also find its extremes.
//
// A matmul's kernel has all elements at hand. Each extreme becomes one number in memory, which starts with
// the range's bound and into which all elements are combined (ir::CombinesIntoOne). The quantising kernel
// then reads that number, instead of reading the whole image before. Images that no matmul or convolution of
// the graph computes are unchanged, since that would take another pass over them.
//
// Values derived from the extremes (scale, zero point) are cheap compared with a kernel of their own: the
// quantising kernel computes them itself, and all other readers compute each number from the extremes as
// well.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "compiler/quantise/steps.h"

namespace rondo::passes {

namespace {

constexpr size_t kMostStepsToPicture = 48;  // from a matmul to an image

// One extreme: `id` is the maximum or minimum over all elements of `picture` and of `start`. Without a bound,
// the start is an infinity.
struct FoundExtreme {
  NodeId id = kNoNode, picture = kNoNode;
  bool max = false;
  double start = 0;
};

class ExtremeFinder {
 public:
  explicit ExtremeFinder(Graph* graph) : g_(*graph) {}

  std::vector<FoundExtreme> Find() {
    std::vector<FoundExtreme> found;
    std::set<NodeId> bounded;  // reductions for which a bound was found
    for (NodeId id : g_.TopologicalOrder()) {
      const Node& node = g_.node(id);
      if (node.op != Op::kPointwise || node.shape.elements() != 1 || node.dtype != DType::kF32) continue;
      for (const bool max : {true, false}) {
        const std::optional<ScalarUse> use = WithScalar(g_, id, max ? TapeOp::kMax : TapeOp::kMin);
        if (!use || std::isnan(use->value)) continue;
        const NodeId all = g_.BaseOf(use->x), picture = PictureOf(all, max);
        if (picture == kNoNode || !IsMadeByMatmul(picture)) continue;
        found.push_back({id, picture, max, use->value});
        bounded.insert(all);
      }
    }
    for (NodeId id : g_.TopologicalOrder()) {
      if (bounded.count(id) != 0) continue;
      for (const bool max : {true, false}) {
        const NodeId picture = PictureOf(id, max);
        if (picture == kNoNode || !IsMadeByMatmul(picture)) continue;
        constexpr double kInf = std::numeric_limits<double>::infinity();
        found.push_back({id, picture, max, max ? -kInf : kInf});
      }
    }
    return found;
  }

 private:
  // The tensor that `id` reduces to one number; kNoNode if there is none.
  NodeId PictureOf(NodeId id, bool max) const {
    const NodeId picture = ReducedPicture(g_, id);
    if (picture == kNoNode || !FitsF32(picture) || ScaledLinesOf(g_, picture)) return kNoNode;
    const bool is_max = g_.node(id).As<ir::ReduceAttrs>().kind == ir::ReduceKind::kMax;
    return is_max == max ? picture : kNoNode;
  }
  // Whether f32 holds each element exactly: integers of one byte, or converted bools.
  bool FitsF32(NodeId picture) const {
    const Node& node = g_.node(picture);
    if (IsFloat(node.dtype) || ByteSize(node.dtype) == 1) return ByteSize(node.dtype) <= 4;
    return AsPointwise(g_, picture, TapeOp::kCast) != nullptr &&
           ByteSize(g_.node(g_.BaseOf(node.inputs[0])).dtype) == 1;
  }
  // Whether it is a matmul, or pointwise work of the same size on one.
  bool IsMadeByMatmul(NodeId picture) const {
    const int64_t elements = g_.node(picture).shape.elements();
    std::vector<NodeId> work = {picture};
    std::set<NodeId> seen = {picture};
    while (!work.empty() && seen.size() <= kMostStepsToPicture) {
      const Node& node = g_.node(work.back());
      work.pop_back();
      if (node.op == Op::kConv || node.op == Op::kMatMul) return true;
      if (node.op != Op::kPointwise) continue;
      // A value that is stored in fewer bits cannot be combined where it is widened.
      const bool widens = node.As<ir::PointwiseAttrs>().op == TapeOp::kCast && IsFloat(node.dtype) &&
                          ByteSize(g_.node(g_.BaseOf(node.inputs[0])).dtype) == 2;
      if (widens) continue;
      for (NodeId input : node.inputs) {
        const NodeId base = g_.BaseOf(input);
        if (g_.node(base).shape.elements() == elements && seen.insert(base).second) work.push_back(base);
      }
    }
    return false;
  }

  Graph& g_;
};

// The initial values, written by a kernel before; not a constant, which must not change.
NodeId StartsOf(Graph* graph, const std::vector<FoundExtreme>& found) {
  std::vector<double> values;
  for (const FoundExtreme& one : found) values.push_back(one.start);
  Builder b = BuilderLike(graph, found[0].id);
  const Shape shape{static_cast<int64_t>(values.size())};
  Node copy;
  copy.op = Op::kPointwise;
  copy.dtype = DType::kF32;
  copy.shape = shape;
  copy.attrs = ir::PointwiseAttrs{TapeOp::kCast, 0};
  copy.inputs = {b.Floats(DType::kF32, shape, values)};
  copy.sources = graph->node(found[0].id).sources;
  return graph->Add(std::move(copy));
}

// Gives each user of numbers derived from extremes its own computation of them.
class Numbers {
 public:
  // `cells`: the extremes as nodes.
  Numbers(Graph* graph, const std::vector<FoundExtreme>& found, const std::vector<NodeId>& cells)
      : g_(*graph) {
    cells_.insert(cells.begin(), cells.end());
    for (const FoundExtreme& one : found) made_of_.insert(one.picture);
  }

  void Run() {
    for (NodeId id : g_.TopologicalOrder()) {
      const bool numbers = IsMadeOfPicture(id);
      if (numbers) made_of_.insert(id);
      const bool one = IsOneNumber(id);
      std::map<NodeId, NodeId> copies;  // for this reader
      for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
        const NodeId input = g_.node(id).inputs[k], base = g_.BaseOf(input);
        if (g_.node(id).op == Op::kView || !IsOneNumber(base)) continue;
        if (numbers || one) g_.SetInput(id, k, Shown(input, Copy(base, &copies)));
      }
    }
  }

 private:
  // Whether it is derived from extremes and constants alone.
  bool IsOneNumber(NodeId id) {
    const auto known = one_.find(id);
    if (known != one_.end()) return known->second;
    const Node& node = g_.node(id);
    bool is = node.op == Op::kPointwise && node.shape.elements() == 1, of_cells = false;
    for (size_t k = 0; is && k < node.inputs.size(); ++k) {
      const NodeId base = g_.BaseOf(node.inputs[k]);
      const bool cell = cells_.count(base) != 0 || IsOneNumber(base);
      of_cells |= cell;
      is = cell || (g_.IsConstant(base) && g_.node(base).shape.elements() == 1);
    }
    return one_[id] = is && of_cells;
  }
  // Whether it is a step from an image, possibly padded, to its bytes.
  bool IsMadeOfPicture(NodeId id) const {
    const Node& node = g_.node(id);
    if (node.op != Op::kPointwise && node.op != Op::kIndexedRead) return false;
    if (node.dtype != DType::kF32 && ByteSize(node.dtype) != 1) return false;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
      const NodeId base = g_.BaseOf(input);
      return made_of_.count(base) != 0 && g_.node(base).dtype == DType::kF32;
    });
  }
  NodeId Copy(NodeId id, std::map<NodeId, NodeId>* copies) {
    if (!IsOneNumber(id)) return id;
    const auto known = copies->find(id);
    if (known != copies->end()) return known->second;
    std::vector<NodeId> inputs = g_.node(id).inputs;
    for (NodeId& input : inputs) input = Shown(input, Copy(g_.BaseOf(input), copies));
    const ir::PointwiseAttrs attrs = g_.node(id).As<ir::PointwiseAttrs>();
    const NodeId copy = BuilderLike(&g_, id).Pointwise(attrs, g_.node(id).dtype, inputs);
    one_[copy] = true;
    return (*copies)[id] = copy;
  }
  // `base` in the view in which `input` shows its own base.
  NodeId Shown(NodeId input, NodeId base) {
    return g_.BaseOf(input) == input ? base : BuilderLike(&g_, base).ViewNode(base, g_.ViewOf(input));
  }

  Graph& g_;
  std::set<NodeId> cells_, made_of_;
  std::map<NodeId, bool> one_;
};

}  // namespace

int64_t FindRangesInProducers(Graph* graph) {
  const std::vector<FoundExtreme> found = ExtremeFinder(graph).Find();
  if (found.empty()) return 0;
  const NodeId starts = StartsOf(graph, found);
  std::vector<NodeId> cells;
  int64_t changes = 0;
  for (size_t k = 0; k < found.size(); ++k) {
    const FoundExtreme& one = found[k];
    Builder b = BuilderLike(graph, one.id);
    ir::IndexedAttrs attrs;
    attrs.map = ir::DenseView(graph->node(one.picture).shape);
    std::fill(std::begin(attrs.map.steps[0].strides), std::end(attrs.map.steps[0].strides), 0);
    attrs.combine = one.max ? ir::ScatterCombine::kMax : ir::ScatterCombine::kMin;
    const NodeId cell = b.Slice(starts, 0, static_cast<int64_t>(k), 1, 1);
    cells.push_back(b.IndexedWrite(cell, b.Cast(one.picture, DType::kF32), {}, attrs));
    const Node& was = graph->node(one.id);
    const NodeId all = b.Cast(b.Reshape(cells.back(), was.shape), was.dtype);
    if (graph->CanReplace(one.id, all)) graph->Replace(one.id, all), ++changes;
  }
  Numbers(graph, found, cells).Run();
  return changes;
}

}  // namespace rondo::passes
