#include "compiler/import/cached_attention.h"

#include <limits>

#include "compiler/import/decompose.h"

namespace rondo::importer {

using ir::Builder;

NodeId WriteRows(Builder& b, NodeId cache, NodeId rows, NodeId place, int axis) {
  const ir::View dense = ir::DenseView(b.shape(cache));
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(b.shape(rows));
  for (int d = 0; d < b.shape(cache).rank; ++d) {
    attrs.map.steps[0].strides[d] = d == axis ? 0 : dense.steps[0].strides[d];
  }
  attrs.dims = {{dense.steps[0].strides[axis], b.shape(cache)[axis], false}};
  attrs.may_collide = false;
  return b.IndexedWrite(cache, rows, {place}, attrs);
}

namespace {

constexpr double kDropped = -std::numeric_limits<double>::infinity();

// `keep` and `bias` as one mask.
NodeId Mask(Builder& b, const AttentionRequest& request) {
  if (request.keep == kNoNode || request.bias == kNoNode)
    return request.keep == kNoNode ? request.bias : request.keep;
  return b.Select(request.keep, request.bias, b.Scalar(b.dtype(request.bias), kDropped));
}

// q [b, h, s, d] times k [b, g, t, d] for the heads of each group together: [b, h, s, t], in f32.
NodeId Scores(Builder& b, NodeId q, NodeId k) {
  const Shape qs = b.shape(q), ks = b.shape(k);
  NodeId grouped = b.Reshape(Widen(b, q), {qs[0], ks[1], qs[1] / ks[1] * qs[2], qs[3]});
  NodeId product = b.MatMul(grouped, b.Transpose(Widen(b, k), {0, 1, 3, 2}));
  return b.Reshape(product, {qs[0], qs[1], qs[2], ks[2]});
}

// Weights [b, h, s, t] of values [b, g, t, e], summed.
NodeId Weighed(Builder& b, NodeId weights, NodeId v) {
  const Shape ws = b.shape(weights), vs = b.shape(v);
  NodeId grouped = b.Reshape(weights, {ws[0], vs[1], ws[1] / vs[1] * ws[2], ws[3]});
  return b.Reshape(b.MatMul(grouped, Widen(b, v)), {ws[0], ws[1], ws[2], vs[3]});
}

}  // namespace

NodeId Attend(Builder& b, NodeId q, NodeId k, NodeId v, const AttentionRequest& request) {
  if (request.sink == kNoNode) return b.Attention(q, k, v, Mask(b, request), request.limit, request.attrs);
  NodeId x = b.BinaryScalar(TapeOp::kMul, Scores(b, q, k), request.attrs.scale);
  if (const double cap = request.attrs.softcap; cap != 0) {
    x = b.BinaryScalar(TapeOp::kMul, b.Unary(TapeOp::kTanh, b.BinaryScalar(TapeOp::kDiv, x, cap)), cap);
  }
  if (request.bias != kNoNode) x = b.Add(x, Widen(b, request.bias));
  const NodeId dropped = b.Scalar(DType::kF32, kDropped);
  if (request.keep != kNoNode) x = b.Select(request.keep, x, dropped);
  if (request.limit != kNoNode) {
    const Shape all = b.shape(x);
    NodeId limit = b.Unsqueeze(request.limit, b.shape(request.limit).rank);
    x = b.Select(b.Binary(TapeOp::kLess, b.Iota({all[3]}, 0), limit), x, dropped);
  }
  NodeId top = b.Binary(TapeOp::kMax, b.Reduce(ir::ReduceKind::kMax, x, {3}, true), request.sink);
  NodeId e = b.Unary(TapeOp::kExp, b.Sub(x, top));
  NodeId sum =
      b.Add(b.Reduce(ir::ReduceKind::kSum, e, {3}, true), b.Unary(TapeOp::kExp, b.Sub(request.sink, top)));
  return b.Cast(Weighed(b, b.Div(e, sum), v), b.dtype(q));
}

}  // namespace rondo::importer
