#include "compiler/import/cached_attention.h"

#include <limits>

#include "compiler/import/decompose.h"

namespace rondo::importer {

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

void BeginWithOutput(Builder& b, NodeId cache, size_t present, int axis) {
  const NodeId rows = b.graph().outputs[present].node;
  Shape line = b.shape(rows);
  for (int d = 0; d < line.rank; ++d) line[d] = d == axis ? line[d] : 1;
  b.graph().SetOutput(present, WriteRows(b, cache, rows, b.Iota(line, axis), axis));
}

namespace {

constexpr double kDropped = -std::numeric_limits<double>::infinity();

// Combines `keep` and `bias` into one mask.
NodeId Mask(Builder& b, const AttentionRequest& request) {
  if (request.keep == kNoNode || request.bias == kNoNode)
    return request.keep == kNoNode ? request.bias : request.keep;
  return b.Select(request.keep, request.bias, b.Scalar(b.dtype(request.bias), kDropped));
}

}  // namespace

NodeId Attend(Builder& b, NodeId q, NodeId k, NodeId v, const AttentionRequest& request) {
  return b.Attention(q, k, v, Mask(b, request), request.limit, request.attrs, request.sink);
}

namespace {

// exp(x - max) / sum over the last dim; the sink counts as one more score. 0 if all scores are -inf.
NodeId Weights(Builder& b, NodeId x, NodeId sink) {
  const int last = b.shape(x).rank - 1;
  NodeId greatest = b.Reduce(ir::ReduceKind::kMax, x, {last}, true);
  if (sink != kNoNode) greatest = b.Binary(TapeOp::kMax, greatest, sink);
  const NodeId none = b.Binary(TapeOp::kEqual, greatest, b.Scalar(DType::kF32, kDropped));
  greatest = b.Select(none, b.Scalar(DType::kF32, 0), greatest);
  const NodeId each = b.Unary(TapeOp::kExp, b.Sub(x, greatest));
  NodeId sum = b.Reduce(ir::ReduceKind::kSum, each, {last}, true);
  if (sink != kNoNode) sum = b.Add(sum, b.Unary(TapeOp::kExp, b.Sub(sink, greatest)));
  sum = b.Select(b.Binary(TapeOp::kEqual, sum, b.Scalar(DType::kF32, 0)), b.Scalar(DType::kF32, 1), sum);
  return b.Div(each, sum);
}

}  // namespace

NodeId Scores(Builder& b, NodeId q, NodeId k, const AttentionRequest& request, ScoreStage stage) {
  const Shape queries = b.shape(q), keys = b.shape(k);
  const int64_t heads = queries[1], groups = keys[1], rows = queries[2];
  const NodeId each =
      b.Reshape(b.Cast(q, DType::kF32), {queries[0], groups, heads / groups * rows, queries[3]});
  NodeId x = b.MatMul(each, b.Transpose(b.Cast(k, DType::kF32), {0, 1, 3, 2}));
  x = b.BinaryScalar(TapeOp::kMul, b.Reshape(x, {queries[0], heads, rows, keys[2]}), request.attrs.scale);
  const bool caps = request.attrs.softcap != 0 && stage >= ScoreStage::kCapped;
  if (caps) {
    x = b.Unary(TapeOp::kTanh, b.BinaryScalar(TapeOp::kDiv, x, request.attrs.softcap));
    x = b.BinaryScalar(TapeOp::kMul, x, request.attrs.softcap);
  }
  if (stage >= ScoreStage::kMasked) {
    const NodeId dropped = b.Scalar(DType::kF32, kDropped);
    if (request.bias != kNoNode) x = b.Add(x, b.Cast(request.bias, DType::kF32));
    if (request.keep != kNoNode) x = b.Select(request.keep, x, dropped);
    if (request.limit != kNoNode) {
      const NodeId end = b.Unsqueeze(request.limit, b.shape(request.limit).rank);
      x = b.Select(b.Binary(TapeOp::kLess, b.IotaOver({b.SizeOf(k, 2)}, 0), end), x, dropped);
    }
  }
  if (stage == ScoreStage::kWeights) {
    const bool sinks = request.sink != kNoNode;
    const bool one = sinks && b.shape(request.sink).rank == 0;
    const NodeId sink = !sinks || one ? request.sink : b.Unsqueeze(request.sink, b.shape(request.sink).rank);
    x = Weights(b, x, sink);
  }
  return b.Cast(x, b.dtype(q));
}

}  // namespace rondo::importer
