// FlexAttention: attention in which a subgraph of the model modifies scores and probabilities.
#include <cmath>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "formats/onnx/onnx.pb.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {
namespace {

// Applies the node's graph `name` to x, if it has one.
Result<NodeId> Modified(OpContext& c, const char* name, NodeId x) {
  const onnx::AttributeProto* graph = c.Attribute(name);
  if (graph == nullptr || !graph->has_g()) return x;
  RONDO_ASSIGN_OR_RETURN(const std::vector<Value> out, c.host.RunSubgraph(graph->g(), {Value{x, false, {}}}));
  if (out.size() != 1 || out[0].is_sequence || out[0].node == kNoNode || out[0].bits != 0 ||
      c.b.dtype(out[0].node) != c.b.dtype(x) || !(c.b.shape(out[0].node) == c.b.shape(x)))
    return Status::Error(Code::kCorrupt, "%s gives something else than one tensor of shape %s", name,
                         Text(c.b.shape(x)).c_str());
  return out[0].node;
}

// q [b, h, s, d], k [b, g, t, d], v [b, g, t, e] with h a multiple of g.
Status FlexAttention(OpContext& c) {
  for (int i = 0; i < 3; ++i) {
    RONDO_RETURN_IF_ERROR(c.RequireRank(i, 4, 4));
    RONDO_RETURN_IF_ERROR(c.RequireFloats(0, i));
  }
  const Shape q = c.shape(0), k = c.shape(1), v = c.shape(2);
  if (k[1] < 1 || q[1] % k[1] != 0 || q[0] != k[0] || q[3] != k[3] ||
      !(WithDim(k, 3, 0) == WithDim(v, 3, 0)) || q.elements() == 0 || k.elements() == 0 || v.elements() == 0)
    return Status::Error(Code::kCorrupt, "queries %s, keys %s and values %s do not fit", Text(q).c_str(),
                         Text(k).c_str(), Text(v).c_str());
  Builder& b = c.b;
  DType type = c.dtype(0) == DType::kF64 ? DType::kF64 : DType::kF32;
  if (c.HasAttribute("softmax_precision")) {
    RONDO_ASSIGN_OR_RETURN(type, onnx::DTypeOf(static_cast<int>(c.Int("softmax_precision", 1))));
    if (!IsFloat(type)) return Status::Error(Code::kCorrupt, "softmax_precision is no type of floats");
  }
  const NodeId keys = RepeatEach(b, c.In(1), 1, q[1] / k[1]), values = RepeatEach(b, c.In(2), 1, q[1] / k[1]);
  const float scale = c.Float("scale", 1 / std::sqrt(static_cast<float>(q[3])));
  NodeId scores = b.MatMul(Widen(b, c.In(0)), b.Transpose(Widen(b, keys), {0, 1, 3, 2}));
  scores = b.Cast(b.BinaryScalar(TapeOp::kMul, scores, scale), type);
  RONDO_ASSIGN_OR_RETURN(scores, Modified(c, "score_mod", scores));
  RONDO_ASSIGN_OR_RETURN(NodeId weights, Modified(c, "prob_mod", Softmax(b, scores, 3)));
  return c.Give(b.Cast(b.MatMul(weights, b.Cast(values, type)), c.dtype(0)));
}

constexpr OpRow kOps[] = {{"FlexAttention", 3, FlexAttention, 1, kLatest, "ai.onnx.preview"}};

}  // namespace

Span<const OpRow> FlexAttentionOps() { return kOps; }

}  // namespace rondo::importer
