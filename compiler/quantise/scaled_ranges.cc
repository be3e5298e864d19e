// The range of an image that is another image times a per-channel factor is computed from the extremes of
// that image's channels.
//
// Squeeze-and-excitation takes the mean of each channel of an image, and multiplies the channel by a factor
// derived from all means. The kernel that takes the mean also finds the extremes of the channel. With the
// factors they give the range of the result (ScaledLines), so it is not read again before quantisation.
#include <algorithm>
#include <map>
#include <tuple>

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

bool IsReduce(const Node& node, ReduceKind kind) {
  return node.op == Op::kReduce && node.As<ir::ReduceAttrs>().kind == kind;
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
      const NodeId picture = ReducedPicture(g_, id);
      std::vector<int> axes;
      if (picture == kNoNode || g_.node(picture).dtype != DType::kF32) continue;
      const size_t x = ScaledInput(g_, g_.node(picture), &axes);
      if (x > 1 || !IsReducedAlong(g_.BaseOf(g_.node(picture).inputs[x]), axes)) continue;
      const Shape shape = g_.node(id).shape;
      Builder b = BuilderLike(&g_, id);
      const ReduceKind kind = g_.node(id).As<ir::ReduceAttrs>().kind;
      const NodeId lines = Lines(b, picture, x, axes, kind);
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
  // For each line of `x`; created once.
  NodeId Extremes(Builder& b, ReduceKind kind, NodeId x, const std::vector<int>& axes) {
    NodeId& extremes = extremes_.try_emplace({kind, x, axes}, kNoNode).first->second;
    return extremes != kNoNode ? extremes : extremes = b.Reduce(kind, x, axes, true);
  }
  // The extremes of the lines of the image, of the given `kind`.
  NodeId Lines(Builder& b, NodeId picture, size_t input, const std::vector<int>& axes, ReduceKind kind) {
    const NodeId x = g_.BaseOf(g_.node(picture).inputs[input]);
    NodeId s = g_.node(picture).inputs[1 - input];
    for (int d : axes) s = b.Slice(s, d, 0, 1, 1);
    const NodeId greatest = b.Mul(Extremes(b, ReduceKind::kMax, x, axes), s),
                 least = b.Mul(Extremes(b, ReduceKind::kMin, x, axes), s);
    return b.Binary(kind == ReduceKind::kMax ? TapeOp::kMax : TapeOp::kMin, greatest, least);
  }

  Graph& g_;
  std::map<std::tuple<ReduceKind, NodeId, std::vector<int>>, NodeId> extremes_;
};

}  // namespace

std::optional<ScaledLines> ScaledLinesOf(Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (node.op != Op::kPointwise) return std::nullopt;
  const TapeOp op = node.As<ir::PointwiseAttrs>().op;
  if (op != TapeOp::kMax && op != TapeOp::kMin) return std::nullopt;
  // The extremes of each line of x, times s.
  NodeId x = kNoNode, s = kNoNode;
  std::vector<int> reduced;
  for (size_t k = 0; k < 2; ++k) {
    const Node* const product = AsPointwise(graph, node.inputs[k], TapeOp::kMul);
    if (product == nullptr) return std::nullopt;
    const Node& lines = graph.node(product->inputs[0]);
    if (!IsReduce(lines, k == 0 ? ReduceKind::kMax : ReduceKind::kMin)) return std::nullopt;
    const NodeId of = graph.BaseOf(lines.inputs[0]), by = graph.BaseOf(product->inputs[1]);
    if (k == 1 && (of != x || by != s || lines.As<ir::ReduceAttrs>().axes != reduced)) return std::nullopt;
    x = of, s = by, reduced = lines.As<ir::ReduceAttrs>().axes;
  }
  for (NodeId user : graph.UsersOf(x)) {
    std::vector<int> axes;
    const Node& product = graph.node(user);
    const size_t input = ScaledInput(graph, product, &axes);
    if (input < 2 && graph.BaseOf(product.inputs[input]) == x &&
        graph.BaseOf(product.inputs[1 - input]) == s && axes == reduced)
      return ScaledLines{user, axes};
  }
  return std::nullopt;
}

int64_t FindScaledRanges(Graph* graph) { return Ranges(graph).Run(); }

}  // namespace rondo::passes
