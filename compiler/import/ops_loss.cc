// Losses of classifiers: class scores along axis 1 against the correct indices.
#include <string>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

// Log probabilities x [n, classes, d...], targets (input 1) [n, d...], weights of classes (input 2), if any.
Result<NodeId> NegativeLogLikelihood(OpContext& c, NodeId x) {
  Builder& b = c.b;
  const Shape shape = b.shape(x), targets = c.shape(1);
  RONDO_RETURN_IF_ERROR(c.RequireInteger(1));
  if (shape.rank < 2 || targets.rank != shape.rank - 1 || shape.elements() == 0) {
    return Status::Error(Code::kCorrupt, "targets of shape %s for scores of shape %s", Text(targets).c_str(),
                         Text(shape).c_str());
  }
  NodeId target = b.Unsqueeze(b.Cast(c.In(1), DType::kI64), 1);
  const Shape picked = b.shape(target);
  if (!(picked == WithDim(shape, 1, 1))) {
    return Status::Error(Code::kCorrupt, "targets of shape %s for scores of shape %s", Text(targets).c_str(),
                         Text(shape).c_str());
  }
  std::string reduction = c.String("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    return Status::Error(Code::kCorrupt, "reduction \"%.30s\"", reduction.c_str());

  NodeId ignored = kNoNode;
  if (c.HasAttribute("ignore_index")) {
    NodeId index = b.Ints(DType::kI64, Shape{}, {c.Int("ignore_index", 0)});
    ignored = b.Binary(TapeOp::kEqual, target, index);
    target = b.Select(ignored, b.Scalar(DType::kI64, 0), target);
  }
  ir::IndexedAttrs read;
  read.map = ir::DenseView(shape);
  ir::ViewStep& step = read.map.steps[0];
  read.dims = {{step.strides[1], shape[1], false}};
  step.strides[1] = 0;
  step.shape = picked;
  NodeId loss = b.Unary(TapeOp::kNeg, b.IndexedRead(x, {target}, read, picked));

  NodeId weight = kNoNode;
  if (c.Has(2)) {
    if (!(c.shape(2) == Shape{shape[1]}))
      return Status::Error(Code::kCorrupt, "weights of shape %s", Text(c.shape(2)).c_str());
    weight = b.Gather(b.Cast(c.In(2), b.dtype(x)), target, 0, false);
  }
  if (ignored != kNoNode) {
    NodeId counts = weight == kNoNode ? b.Scalar(b.dtype(x), 1) : weight;
    weight = b.Select(ignored, b.Scalar(b.dtype(x), 0), counts);
  }
  if (weight != kNoNode) loss = b.Mul(loss, weight);
  if (reduction == "none") return b.Reshape(loss, targets);
  std::vector<int> all = AxisRange(0, picked.rank);
  NodeId sum = b.Reduce(ir::ReduceKind::kSum, loss, all, false);
  if (reduction == "sum") return sum;
  NodeId count = weight == kNoNode ? b.Scalar(b.dtype(x), static_cast<double>(picked.elements()))
                                   : b.Reduce(ir::ReduceKind::kSum, weight, all, false);
  return b.Div(sum, count);
}

Status NegativeLogLikelihoodLoss(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_ASSIGN_OR_RETURN(NodeId loss, NegativeLogLikelihood(c, Widen(c.b, c.In(0))));
  return c.Give(c.b.Cast(loss, c.dtype(0)));
}

Status SoftmaxCrossEntropyLoss(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, kMaxRank));
  NodeId log_probability = LogSoftmax(c.b, Widen(c.b, c.In(0)), 1);
  RONDO_ASSIGN_OR_RETURN(NodeId loss, NegativeLogLikelihood(c, log_probability));
  c.Set(0, c.b.Cast(loss, c.dtype(0)));
  if (c.Wants(1)) c.Set(1, c.b.Cast(log_probability, c.dtype(0)));
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"NegativeLogLikelihoodLoss", 2, NegativeLogLikelihoodLoss, 12},
    {"SoftmaxCrossEntropyLoss", 2, SoftmaxCrossEntropyLoss, 12},
};

}  // namespace

Span<const OpRow> LossOps() { return kOps; }

}  // namespace rondo::importer
