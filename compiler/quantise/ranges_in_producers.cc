// The kernel that computes a picture finds its extremes as well.
//
// A range is known where a product still has its elements: each extreme becomes one number of memory, which
// begins as the number that the range holds anyway and all elements combine into (ir::CombinesIntoOne). What
// quantises the picture then reads that number, and need not look at all of the picture before. Pictures that
// no product of the graph makes stay as they are: somebody would have to look at them for this alone.
//
// What is made of the extremes (scale, zero point) is quick to compute next to a kernel of its own: what
// quantises the picture computes it itself, and for all others it is computed beside that, each number from
// the extremes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "compiler/quantise/steps.h"

namespace rondo::passes {

namespace {

constexpr size_t kMostStepsToPicture = 48;  // from a product to a picture

// One extreme: `id` is the greatest, or the least, of all elements of `picture` and of `start`. An extreme
// that nothing bounds starts as an infinity.
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
    std::set<NodeId> bounded;  // reductions of which that is found
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
  // What all of is reduced to one number by `id`; kNoNode if nothing is.
  NodeId PictureOf(NodeId id, bool max) const {
    const NodeId picture = ReducedPicture(g_, id);
    if (picture == kNoNode || !FitsF32(picture) || ScaledLinesOf(g_, picture)) return kNoNode;
    const bool is_max = g_.node(id).As<ir::ReduceAttrs>().kind == ir::ReduceKind::kMax;
    return is_max == max ? picture : kNoNode;
  }
  // Whether a cell of f32 holds each element as it is: integers that are bytes, or what a bool became.
  bool FitsF32(NodeId picture) const {
    const Node& node = g_.node(picture);
    if (IsFloat(node.dtype) || ByteSize(node.dtype) == 1) return ByteSize(node.dtype) <= 4;
    return AsPointwise(g_, picture, TapeOp::kCast) != nullptr &&
           ByteSize(g_.node(g_.BaseOf(node.inputs[0])).dtype) == 1;
  }
  // Whether it is a product, or pointwise work on one, as large as it.
  bool IsMadeByMatmul(NodeId picture) const {
    const int64_t elements = g_.node(picture).shape.elements();
    std::vector<NodeId> work = {picture};
    std::set<NodeId> seen = {picture};
    while (!work.empty() && seen.size() <= kMostStepsToPicture) {
      const Node& node = g_.node(work.back());
      work.pop_back();
      if (node.op == Op::kConv || node.op == Op::kMatMul) return true;
      if (node.op != Op::kPointwise) continue;
      // What memory keeps in fewer bits is not there to be combined where it is widened.
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

// What they begin as, which a kernel of its own writes before: not a constant, which stays.
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

// Gives who needs numbers made of extremes their own ways to compute them.
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
      std::map<NodeId, NodeId> copies;  // of this reader
      for (size_t k = 0; k < g_.node(id).inputs.size(); ++k) {
        const NodeId input = g_.node(id).inputs[k], base = g_.BaseOf(input);
        if (g_.node(id).op == Op::kView || !IsOneNumber(base)) continue;
        if (numbers || one) g_.SetInput(id, k, Shown(input, Copy(base, &copies)));
      }
    }
  }

 private:
  // Whether it is made of extremes and constants alone.
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
  // Whether it is a step from a picture, as it is or padded, to its bytes.
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
  // `base`, as `input` shows its own.
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
