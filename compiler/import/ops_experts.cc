// MoE, QMoE and MoEGroupRouter of com.microsoft. Every token goes through every expert, and experts that are
// not its own get weight 0: no kernel reads the weights of only some experts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "compiler/import/decompose.h"
#include "compiler/import/expert_weights.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// x [1 or experts, tokens, k] through one layer of every expert: [experts, tokens, n].
Result<NodeId> Through(OpContext& c, const ExpertLayer& layer, NodeId x, int64_t experts, WeightOrder lie) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(NodeId w, ExpertWeights(c, layer, experts, b.shape(x)[2], lie));
  NodeId y = b.MatMul(x, b.Transpose(w, {0, 2, 1}));
  if (!c.Has(layer.bias)) return y;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(layer.bias));
  const int64_t n = b.shape(y)[2];
  if (!(c.shape(layer.bias) == Shape({experts, n})))
    return Status::Error(Code::kCorrupt, "a bias of shape %s", Text(c.shape(layer.bias)).c_str());
  return b.Add(y, b.Reshape(b.Cast(c.In(layer.bias), DType::kF32), {experts, 1, n}));
}

// G * sigmoid(alpha * G) * (L + beta), both clamped: G from above, before or after its activation; L on both
// sides.
NodeId SwiGlu(OpContext& c, NodeId gate, NodeId line) {
  Builder& b = c.b;
  const double limit = c.Float("swiglu_limit", std::numeric_limits<float>::infinity());
  const bool after = c.Int("swiglu_limit_after_activation", 0) != 0, finite = std::isfinite(limit);
  if (finite && !after) gate = b.BinaryScalar(TapeOp::kMin, gate, limit);
  if (finite) line = Clamp(b, line, -limit, limit);
  NodeId y = b.Mul(gate, Sigmoid(b, b.BinaryScalar(TapeOp::kMul, gate, c.Float("activation_alpha", 1))));
  if (finite && after) y = b.BinaryScalar(TapeOp::kMin, y, limit);
  return b.Mul(y, b.BinaryScalar(TapeOp::kAdd, line, c.Float("activation_beta", 0)));
}

// The order of gates and linear parts in the rows of fc1. If a QMoE without fc3 does not give the order, they
// alternate: ONNX Runtime assumes this for models older than swiglu_fusion.
Result<int64_t> FusionOf(OpContext& c, const ExpertLayer* layers) {
  const int64_t fusion = c.Int("swiglu_fusion", 0);
  const bool apart = c.Has(layers[2].weights);
  if (fusion == 0 && !apart && layers == kQuantisedExperts) {
    c.host.Remark(
        "QMoE with swiglu_fusion 0 and no fc3: gates and lines are taken as lying in turns, as with 1");
    return 1;
  }
  if ((fusion == 0) == apart && fusion >= 0 && fusion <= 2) return fusion;
  return Status::Error(Code::kCorrupt, "swiglu_fusion %lld does not fit the weights",
                       static_cast<long long>(fusion));
}

// The input of fc2.
Result<NodeId> Activated(OpContext& c, const ExpertLayer* layers, NodeId x, int64_t experts,
                         WeightOrder lie) {
  Builder& b = c.b;
  const std::string name = c.String("activation_type", "relu");
  RONDO_ASSIGN_OR_RETURN(NodeId y, Through(c, layers[0], x, experts, lie));
  NodeId other = kNoNode;
  if (c.Has(layers[2].weights)) {
    RONDO_ASSIGN_OR_RETURN(other, Through(c, layers[2], x, experts, lie));
    if (!(b.shape(other) == b.shape(y))) return Status::Error(Code::kCorrupt, "fc3 does not fit fc1");
  }
  if (name == "swiglu" || name == "geglu") {
    RONDO_ASSIGN_OR_RETURN(const int64_t fusion, FusionOf(c, layers));
    const int64_t half = b.shape(y)[2] / 2;
    if (fusion != 0 && b.shape(y)[2] % 2 != 0)
      return Status::Error(Code::kCorrupt, "fc1 of %lld rows: gates and lines are as many",
                           static_cast<long long>(b.shape(y)[2]));
    NodeId gate = y;
    if (fusion == 1) gate = b.Slice(y, 2, 0, 2, half), other = b.Slice(y, 2, 1, 2, half);
    if (fusion == 2) gate = b.Slice(y, 2, 0, 1, half), other = b.Slice(y, 2, half, 1, half);
    return name == "swiglu" ? SwiGlu(c, gate, other) : b.Mul(GeluTanh(b, gate), other);
  }
  NodeId out = kNoNode;
  if (name == "relu" || name == "relu2") out = Relu(b, y);
  if (name == "relu2") out = b.Mul(out, out);
  if (name == "gelu") out = GeluTanh(b, y);
  if (name == "silu") out = Silu(b, y);
  if (name == "identity") out = y;
  if (out == kNoNode) {
    return Status::Error(
        Code::kUnsupported,
        "activation_type \"%.40s\": rondo knows relu, relu2, gelu, silu, swiglu, geglu and identity",
        name.c_str());
  }
  return other == kNoNode ? out : b.Mul(out, other);
}

// The share of each expert in each token's result: [tokens, experts], 0 except for the k largest scores. Of
// equal scores, the first counts as larger.
NodeId Routing(Builder& b, NodeId scores, NodeId values, int64_t k) {
  return b.Select(AmongLargest(b, scores, k), values, b.Scalar(DType::kF32, 0));
}

Status Check(OpContext& c, const ExpertLayer* layers) {
  for (int layer : {0, 1}) {
    if (!c.Has(layers[layer].weights))
      return Status::Error(Code::kCorrupt, "input %d is missing", layers[layer].weights);
  }
  if (c.Int("use_sparse_mixer", 0) != 0)
    return Status::Error(Code::kUnsupported, "use_sparse_mixer: export the model without");
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 3));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 2, 2));
  const Shape x = c.shape(0), router = c.shape(1);
  if (x.elements() == 0 || router.elements() == 0 || router[0] != x.elements() / x[x.rank - 1]) {
    return Status::Error(Code::kCorrupt, "router_probs of shape %s for %s", Text(router).c_str(),
                         Text(x).c_str());
  }
  if (layers[0].scales < 0) return Status::Ok();
  return CheckQuantisation(c, layers);
}

template <bool kQuantised>
Status Experts(OpContext& c) {
  Builder& b = c.b;
  const ExpertLayer* layers = kQuantised ? kQuantisedExperts : kPlainExperts;
  RONDO_RETURN_IF_ERROR(Check(c, layers));
  const Shape s = c.shape(0);
  const int64_t width = s[s.rank - 1], tokens = s.elements() / width, experts = c.shape(1)[1];
  const int64_t k = c.Int("k", 1);
  if (k < 1 || k > experts || experts > 4096)
    return Status::Error(Code::kCorrupt, "%lld of %lld experts", static_cast<long long>(k),
                         static_cast<long long>(experts));
  NodeId scores = b.Cast(c.In(1), DType::kF32);
  NodeId shares = kNoNode;
  if (kQuantised && c.Has(14)) {
    RONDO_RETURN_IF_ERROR(c.RequireFloat(14));
    if (!(c.shape(14) == c.shape(1))) return Status::Error(Code::kCorrupt, "router_weights of another shape");
    shares = Routing(b, scores, b.Cast(c.In(14), DType::kF32), k);
  } else {
    shares = Routing(b, scores, Softmax(b, scores, 1), k);
  }
  // In ONNX Runtime the shares of quantised experts sum to 1, whatever the attribute says.
  if (c.Int("normalize_routing_weights", 0) != 0 || (kQuantised && !c.Has(14)))
    shares = b.Div(shares, b.Reduce(ir::ReduceKind::kSum, shares, {1}, true));
  NodeId x = b.Cast(b.Reshape(c.In(0), {1, tokens, width}), DType::kF32);
  WeightOrder lie = WeightOrder::kRows;
  if (kQuantised && c.String("quant_type", "int") == "int") {
    RONDO_ASSIGN_OR_RETURN(lie, OrderOfExperts(c, layers, experts));
  }
  RONDO_ASSIGN_OR_RETURN(NodeId y, Activated(c, layers, x, experts, lie));
  RONDO_ASSIGN_OR_RETURN(y, Through(c, layers[1], y, experts, lie));
  if (b.shape(y)[2] != width)
    return Status::Error(Code::kCorrupt, "fc2 does not give back %lld features",
                         static_cast<long long>(width));
  y = b.Mul(y, b.Unsqueeze(b.Transpose(shares, {1, 0}), 2));
  y = b.Reduce(ir::ReduceKind::kSum, y, {0}, false);
  return c.Give(b.Cast(b.Reshape(y, s), c.dtype(0)));
}

// ------------------------------------------------------------------------------------ who is chosen

enum RouterInput { kLogits, kExpertBias, kRouterWeight };
enum RouterOutput { kRouterProbs, kSelectionScores, kRouterWeights };

Status CheckRouter(OpContext& c, int64_t experts) {
  const int64_t groups = c.Int("n_group", 1), used = c.Int("topk_group", 1), k = c.Int("top_k", 0);
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kExpertBias));
  if (!(c.shape(kExpertBias) == Shape({experts}))) {
    return Status::Error(Code::kCorrupt, "expert_bias of shape %s for %lld experts",
                         Text(c.shape(kExpertBias)).c_str(), static_cast<long long>(experts));
  }
  if (groups < 1 || experts % groups != 0 || used < 1 || used > groups || k < 1 ||
      k > used * (experts / groups) || c.Int("group_topk", 2) < 1 || experts > 4096) {
    return Status::Error(Code::kCorrupt, "%lld of %lld experts, out of %lld of %lld groups",
                         static_cast<long long>(k), static_cast<long long>(experts),
                         static_cast<long long>(used), static_cast<long long>(groups));
  }
  const bool whole = c.Wants(kSelectionScores) || c.Wants(kRouterWeights);
  if (whole == c.Wants(kRouterProbs) || (whole && groups != 1) || (!whole && c.Has(kRouterWeight)))
    return Status::Error(Code::kCorrupt,
                         "router_probs, or else the scores of all experts in one group: both were asked for, "
                         "or neither, or scores of %lld groups, or projection_weight without them",
                         static_cast<long long>(groups));
  return Status::Ok();
}

// Sigmoids of the logits. Experts are chosen by sigmoid + bias: first the best groups (by the sum of a
// group's greatest), then the best experts in them.
Status MoeGroupRouter(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kLogits));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kLogits, 1, kMaxRank));
  const Shape s = c.shape(kLogits);
  const int64_t width = s[s.rank - 1];
  if (s.elements() == 0) return Status::Error(Code::kCorrupt, "logits of shape %s", Text(s).c_str());
  const int64_t tokens = s.elements() / width;
  NodeId x = b.Cast(b.Reshape(c.In(kLogits), {tokens, width}), DType::kF32);
  if (c.Has(kRouterWeight)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(kLogits, kRouterWeight));
    RONDO_RETURN_IF_ERROR(c.RequireRank(kRouterWeight, 2, 2));
    if (c.shape(kRouterWeight)[1] != width)
      return Status::Error(Code::kCorrupt, "projection_weight of shape %s for %s",
                           Text(c.shape(kRouterWeight)).c_str(), Text(s).c_str());
    x = b.MatMul(x, b.Transpose(b.Cast(c.In(kRouterWeight), DType::kF32), {1, 0}));
  }
  const int64_t experts = b.shape(x)[1];
  RONDO_RETURN_IF_ERROR(CheckRouter(c, experts));
  const NodeId weights = Sigmoid(b, x);
  const NodeId scores = b.Add(weights, b.Cast(c.In(kExpertBias), DType::kF32));
  if (c.Wants(kSelectionScores)) c.Set(kSelectionScores, scores);
  if (c.Wants(kRouterWeights)) c.Set(kRouterWeights, weights);
  if (!c.Wants(kRouterProbs)) return Status::Ok();
  const int64_t groups = c.Int("n_group", 1), each = experts / groups;
  const NodeId none = b.Scalar(DType::kF32, -std::numeric_limits<double>::infinity());
  NodeId open = scores;
  if (const int64_t used = c.Int("topk_group", 1); used < groups) {
    const NodeId rows = b.Reshape(scores, {tokens * groups, each});
    const NodeId best = Routing(b, rows, rows, std::min(c.Int("group_topk", 2), each));
    const NodeId sums = b.Reshape(b.Reduce(ir::ReduceKind::kSum, best, {1}, false), {tokens, groups});
    const NodeId kept = b.Unsqueeze(AmongLargest(b, sums, used), 2);
    open = b.Select(kept, b.Reshape(scores, {tokens, groups, each}), none);
    open = b.Reshape(open, {tokens, experts});
  }
  const NodeId log = b.Unary(TapeOp::kLog, b.BinaryScalar(TapeOp::kMax, weights, 1e-20));
  const NodeId sentinel = b.Scalar(DType::kF32, c.Float("router_sentinel", -10000));
  const NodeId chosen = AmongLargest(b, open, c.Int("top_k", 0));
  c.Set(kRouterProbs, b.Cast(b.Select(chosen, log, sentinel), c.dtype(kLogits)));
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"MoE", 3, Experts<false>, 1, kLatest, kDomain},
    {"MoEGroupRouter", 2, MoeGroupRouter, 1, kLatest, kDomain},
    {"QMoE", 3, Experts<true>, 1, kLatest, kDomain, false, true},
};

}  // namespace

Span<const OpRow> ExpertOps() { return kOps; }

}  // namespace rondo::importer
