#include <limits>

#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

namespace {

constexpr double kDropped = -std::numeric_limits<double>::infinity();

// Heads in groups: [b, h, rows, n] as [b, g, h / g * rows, n]; heads of a group share keys and values.
NodeId Grouped(Builder& b, NodeId x, int64_t groups) {
  const Shape s = b.shape(x);
  return b.Reshape(x, {s[0], groups, s[1] / groups * s[2], s[3]});
}

// Scores [b, h, s, t] in f32; dropped ones are -inf.
NodeId Scores(Builder& b, const ir::AttentionInputs& in, const ir::AttentionAttrs& attrs) {
  const Shape q = b.shape(in.q), k = b.shape(in.k);
  NodeId keys = b.Transpose(b.Cast(in.k, DType::kF32), {0, 1, 3, 2});
  NodeId x = b.MatMul(Grouped(b, b.Cast(in.q, DType::kF32), k[1]), keys);
  x = b.BinaryScalar(TapeOp::kMul, b.Reshape(x, {q[0], q[1], q[2], k[2]}), attrs.scale);
  if (const double cap = attrs.softcap; cap != 0)
    x = b.BinaryScalar(TapeOp::kMul, b.Unary(TapeOp::kTanh, b.BinaryScalar(TapeOp::kDiv, x, cap)), cap);
  const NodeId dropped = b.Scalar(DType::kF32, kDropped);
  if (in.mask != kNoNode) {
    const bool keeps = b.dtype(in.mask) == DType::kBool;
    x = keeps ? b.Select(in.mask, x, dropped) : b.Add(x, b.Cast(in.mask, DType::kF32));
  }
  if (in.limit == kNoNode) return x;
  return b.Select(b.Binary(TapeOp::kLess, b.Iota({k[2]}, 0), b.Unsqueeze(in.limit, 3)), x, dropped);
}

// Attention [b, h, s, e] whose softmax has the sink in its sum.
NodeId Pieces(Builder& b, const ir::AttentionInputs& in, const ir::AttentionAttrs& attrs) {
  const NodeId x = Scores(b, in, attrs), sink = b.Unsqueeze(in.sink, 3);
  const NodeId top = b.Binary(TapeOp::kMax, b.Reduce(ir::ReduceKind::kMax, x, {3}, true), sink);
  const NodeId e = b.Unary(TapeOp::kExp, b.Sub(x, top));
  const NodeId sum =
      b.Add(b.Reduce(ir::ReduceKind::kSum, e, {3}, true), b.Unary(TapeOp::kExp, b.Sub(sink, top)));
  const Shape q = b.shape(in.q), v = b.shape(in.v);
  NodeId weights = b.Div(e, sum);
  if (attrs.nan_to_zero)
    weights = b.Select(b.Unary(TapeOp::kIsNan, weights), b.Scalar(DType::kF32, 0), weights);
  const NodeId y = b.MatMul(Grouped(b, weights, v[1]), b.Cast(in.v, DType::kF32));
  return b.Cast(b.Reshape(y, {q[0], q[1], q[2], v[3]}), b.dtype(in.q));
}

}  // namespace

Result<PassResult> DecomposeSinks(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  for (NodeId id : graph->TopologicalOrder()) {
    if (graph->node(id).op != Op::kAttention || !graph->node(id).As<ir::AttentionAttrs>().has_sink) continue;
    const ir::AttentionInputs in = ir::AttentionInputsOf(graph->node(id));
    const ir::AttentionAttrs attrs = graph->node(id).As<ir::AttentionAttrs>();
    Builder b = BuilderLike(graph, id);
    graph->Replace(id, Pieces(b, in, attrs));
    ++result.changes;
  }
  Tidy(graph);
  result.text = Count(result.changes, "attention") + " with a sink in pieces";
  return result;
}

}  // namespace rondo::passes
