// The range of an image that is another image times a per-channel factor is computed from the extremes of
// that image's channels.
//
// Squeeze-and-excitation takes the mean of each channel of an image, and multiplies the channel by a factor
// derived from all means. The kernel that takes the mean also finds the extremes of the channel. With the
// factors, none of which is negative, they give the range of the result, so it is not read again before
// quantisation. Rounding is monotonic: the result is bit-identical as long as all numbers are finite.
#include <algorithm>

#include "compiler/passes/sign_facts.h"
#include "compiler/quantise/steps.h"

namespace rondo::passes {

namespace {

using ir::ReduceKind;

// The axes with more than one element along which the view is constant, if all others are shown in order.
// Empty otherwise.
std::vector<int> RepeatedAxes(const Graph& graph, NodeId id) {
  const ir::View view = graph.ViewOf(id);
  if (!view.affine() || view.steps[0].offset != 0) return {};
  std::vector<int> axes;
  int64_t run = 1;
  const Shape& shape = view.shape();
  for (int d = shape.rank; d-- > 0;) {
    if (shape[d] == 1) continue;
    const int64_t stride = view.steps[0].strides[d];
    if (stride == 0) {
      axes.insert(axes.begin(), d);
    } else if (stride == run) {
      run *= shape[d];
    } else {
      return {};
    }
  }
  return run == graph.node(graph.BaseOf(id)).shape.elements() ? axes : std::vector<int>();
}

// For `product`, x times s: the input with x, of which all elements are shown in order, while s repeats along
// `axes`. 2 if there is none.
size_t ScaledInput(const Graph& graph, const Node& product, std::vector<int>* axes) {
  if (product.op != Op::kPointwise || product.As<ir::PointwiseAttrs>().op != TapeOp::kMul) return 2;
  for (size_t x = 0; x < 2; ++x) {
    const NodeId base = graph.BaseOf(product.inputs[x]);
    if (!(graph.node(base).shape == product.shape) ||
        !ir::IsDense(graph.ViewOf(product.inputs[x]), product.shape.elements()))
      continue;
    *axes = RepeatedAxes(graph, product.inputs[1 - x]);
    if (!axes->empty()) return x;
  }
  return 2;
}

class Ranges {
 public:
  explicit Ranges(Graph* graph) : g_(*graph) {}

  int64_t Run() {
    int64_t changes = 0;
    for (NodeId id : g_.TopologicalOrder()) {
      const NodeId picture = ReducedTensor(g_, id);
      std::vector<int> axes;
      if (picture == kNoNode || g_.node(picture).dtype != DType::kF32) continue;
      const size_t x = ScaledInput(g_, g_.node(picture), &axes);
      if (x > 1) continue;
      const NodeId scaled = g_.BaseOf(g_.node(picture).inputs[x]);
      NodeId factors = g_.node(picture).inputs[1 - x];
      if (!IsReducedAlong(scaled, axes) || !IsNeverBelowZero(g_, factors)) continue;
      const Shape shape = g_.node(id).shape;
      Builder b = BuilderLike(&g_, id);
      const ReduceKind kind = g_.node(id).As<ir::ReduceAttrs>().kind;
      for (int d : axes) factors = b.Slice(factors, d, 0, 1, 1);
      const NodeId lines = b.Mul(b.Reduce(kind, scaled, axes, true), factors);
      std::vector<int> all;
      for (int d = 0; d < g_.node(lines).shape.rank; ++d) all.push_back(d);
      const NodeId range = b.Reshape(b.Reduce(kind, lines, all, false), shape);
      if (g_.CanReplace(id, range)) g_.Replace(id, range), ++changes;
    }
    return changes;
  }

 private:
  // Whether the lines of `x` are reduced anyway.
  bool IsReducedAlong(NodeId x, const std::vector<int>& axes) const {
    const std::vector<NodeId> users = g_.UsersOf(x);
    return std::any_of(users.begin(), users.end(), [&](NodeId user) {
      const Node& node = g_.node(user);
      return node.op == Op::kReduce && node.inputs[0] == x && LongAxes(node) == axes;
    });
  }
  // The axes with more than one element.
  std::vector<int> LongAxes(const Node& reduce) const {
    std::vector<int> axes = reduce.As<ir::ReduceAttrs>().axes;
    const Shape& shape = g_.node(reduce.inputs[0]).shape;
    axes.erase(std::remove_if(axes.begin(), axes.end(), [&](int d) { return shape[d] == 1; }), axes.end());
    std::sort(axes.begin(), axes.end());
    return axes;
  }
  Graph& g_;
};

}  // namespace

int64_t FindScaledRanges(Graph* graph) { return Ranges(graph).Run(); }

}  // namespace rondo::passes
