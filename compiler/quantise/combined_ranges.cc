// The range of a tensor is found by the kernel that computes the tensor.
//
// Each extreme becomes one number in memory, which starts with the range's bound and into which all elements
// are combined where they are computed (ir::CombinesIntoOne). The quantising kernel then reads that number
// instead of the whole tensor. A small tensor that neither a matmul nor a reduction computes (an input, a
// concatenation, a pool) is read by one kernel, which finds the range and quantises.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "compiler/quantise/steps.h"

namespace rondo::passes {

namespace {

constexpr size_t kMostStepsToKernel = 48;
// Elements of a small tensor: with the blocks of a cluster, and with one block.
constexpr int64_t kMostAtOnce = 64 << 10, kMostAtOnceInBlock = 4 << 10;

// Whether it is pointwise work on what a matmul or, with `reductions`, a reduction computes.
bool IsMadeByKernel(const Graph& graph, NodeId tensor, bool reductions) {
  std::vector<NodeId> work = {tensor};
  std::set<NodeId> seen = {tensor};
  while (!work.empty() && seen.size() <= kMostStepsToKernel) {
    const Node& node = graph.node(work.back());
    work.pop_back();
    if (node.op == Op::kConv || node.op == Op::kMatMul || (node.op == Op::kReduce && reductions)) return true;
    if (node.op != Op::kPointwise) continue;
    // A value that is stored in fewer bits cannot be combined where it is widened.
    const bool widens = node.As<ir::PointwiseAttrs>().op == TapeOp::kCast && IsFloat(node.dtype) &&
                        ByteSize(graph.node(graph.BaseOf(node.inputs[0])).dtype) == 2;
    if (widens) continue;
    for (NodeId input : node.inputs) {
      if (seen.insert(graph.BaseOf(input)).second) work.push_back(graph.BaseOf(input));
    }
  }
  return false;
}

// Whether f32 holds each element exactly: integers of one byte, or converted bools.
bool FitsF32(const Graph& graph, NodeId tensor) {
  const Node& node = graph.node(tensor);
  if (IsFloat(node.dtype) || ByteSize(node.dtype) == 1) return ByteSize(node.dtype) <= 4;
  return AsPointwise(graph, tensor, TapeOp::kCast) != nullptr &&
         ByteSize(graph.node(graph.BaseOf(node.inputs[0])).dtype) == 1;
}

bool IsMax(const Graph& graph, NodeId all) {
  return graph.node(all).As<ir::ReduceAttrs>().kind == ir::ReduceKind::kMax;
}

// Whether `all` reduces its tensor in more than one step.
bool InSteps(const Graph& graph, NodeId all) {
  return graph.BaseOf(graph.node(all).inputs[0]) != graph.BaseOf(ReducedInput(graph, all));
}

// Whether other work is done on its elements: a kernel that reduces all of them at once does that as well.
bool IsReadByElement(Graph& graph, NodeId tensor) {
  const std::vector<NodeId> users = graph.UsersOf(tensor);
  return std::any_of(users.begin(), users.end(), [&](NodeId user) {
    const Node& node = graph.node(user);
    return node.op == Op::kView ? IsReadByElement(graph, user) : node.op == Op::kPointwise;
  });
}

// One extreme: `id` is the maximum or minimum over all elements of `tensor` and of `start`. Without a bound,
// the start is an infinity.
struct FoundExtreme {
  NodeId id = kNoNode, tensor = kNoNode;
  bool max = false;
  double start = 0;
};

std::vector<FoundExtreme> ExtremesToCombine(Graph& graph) {
  std::vector<FoundExtreme> found;
  std::set<NodeId> bounded;  // reductions for which a bound was found
  // The tensor that `all` reduces; kNoNode if that stays.
  const auto tensor_of = [&](NodeId all) {
    const NodeId tensor = ReducedTensor(graph, all);
    if (tensor == kNoNode || !FitsF32(graph, tensor) || bounded.count(all) != 0) return kNoNode;
    const bool reductions = !IsReadByElement(graph, tensor);
    return InSteps(graph, all) || IsMadeByKernel(graph, tensor, reductions) ? tensor : kNoNode;
  };
  const std::vector<NodeId> order = graph.TopologicalOrder();
  for (NodeId id : order) {
    const Node& node = graph.node(id);
    if (node.op != Op::kPointwise || node.shape.elements() != 1 || node.dtype != DType::kF32) continue;
    for (const bool max : {true, false}) {
      const std::optional<ScalarUse> use = WithScalar(graph, id, max ? TapeOp::kMax : TapeOp::kMin);
      if (!use || std::isnan(use->value)) continue;
      const NodeId all = graph.BaseOf(use->x), tensor = tensor_of(all);
      if (tensor == kNoNode || IsMax(graph, all) != max) continue;
      found.push_back({id, tensor, max, use->value});
      bounded.insert(all);
    }
  }
  for (NodeId id : order) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    const NodeId tensor = tensor_of(id);
    if (tensor == kNoNode) continue;
    const bool max = IsMax(graph, id);
    found.push_back({id, tensor, max, max ? -kInf : kInf});
  }
  return found;
}

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

}  // namespace

int64_t FindRangesAtOnce(Graph* graph, bool clusters) {
  int64_t changes = 0;
  for (NodeId id : graph->TopologicalOrder()) {
    const NodeId tensor = ReducedTensor(*graph, id);
    if (tensor == kNoNode || !InSteps(*graph, id) || IsMadeByKernel(*graph, tensor, true)) continue;
    const NodeId input = ReducedInput(*graph, id);  // as the quantising kernel reads it
    const Shape shape = graph->node(input).shape, was = graph->node(id).shape;
    if (shape.elements() > (clusters ? kMostAtOnce : kMostAtOnceInBlock)) continue;
    Builder b = BuilderLike(graph, id);
    std::vector<int> axes;
    for (int d = 0; d < shape.rank; ++d) axes.push_back(d);
    const ir::ReduceKind kind = graph->node(id).As<ir::ReduceAttrs>().kind;
    const NodeId all = b.Reshape(b.Reduce(kind, input, axes, true), was);
    if (graph->CanReplace(id, all)) graph->Replace(id, all), ++changes;
  }
  return changes;
}

int64_t CombineRanges(Graph* graph) {
  const std::vector<FoundExtreme> found = ExtremesToCombine(*graph);
  if (found.empty()) return 0;
  const NodeId starts = StartsOf(graph, found);
  int64_t changes = 0;
  for (size_t k = 0; k < found.size(); ++k) {
    const FoundExtreme& one = found[k];
    Builder b = BuilderLike(graph, one.id);
    ir::IndexedAttrs attrs;
    attrs.map = ir::DenseView(graph->node(one.tensor).shape);
    std::fill(std::begin(attrs.map.steps[0].strides), std::end(attrs.map.steps[0].strides), 0);
    attrs.combine = one.max ? ir::ScatterCombine::kMax : ir::ScatterCombine::kMin;
    const NodeId cell = b.Slice(starts, 0, static_cast<int64_t>(k), 1, 1);
    const NodeId combined = b.IndexedWrite(cell, b.Cast(one.tensor, DType::kF32), {}, attrs);
    const Node& was = graph->node(one.id);
    const NodeId all = b.Cast(b.Reshape(combined, was.shape), was.dtype);
    if (graph->CanReplace(one.id, all)) graph->Replace(one.id, all), ++changes;
  }
  return changes;
}

}  // namespace rondo::passes
