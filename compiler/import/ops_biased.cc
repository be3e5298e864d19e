// com.microsoft operators that add a bias before an activation, a softmax or a residual.
#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// An activation of x + bias (input 1, optional).
template <NodeId (*kFunction)(Builder&, NodeId)>
Status Biased(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_ASSIGN_OR_RETURN(NodeId x, AddInput(c, Widen(c.b, c.In(0)), 1));
  return c.Give(c.b.Cast(kFunction(c.b, x), c.dtype(0)));
}

Status QuickGelu(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  NodeId x = Widen(c.b, c.In(0));
  NodeId gate = Sigmoid(c.b, c.b.BinaryScalar(TapeOp::kMul, x, c.Float("alpha", 1.702f)));
  return c.Give(c.b.Cast(c.b.Mul(x, gate), c.dtype(0)));
}

// x + bias + skip.
Status BiasAdd(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  for (const int i : {1, 2}) RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  const Shape s = c.shape(0);
  if (!(c.shape(2) == s)) return DoesNotFit(c, 2, s);
  RONDO_ASSIGN_OR_RETURN(const NodeId bias, VectorInput(c, 1, s[s.rank - 1]));
  const NodeId y = c.b.Add(c.b.Add(Widen(c.b, c.In(0)), bias), Widen(c.b, c.In(2)));
  return c.Give(c.b.Cast(y, c.dtype(0)));
}

// x + bias [.., d]: the first half times the gelu of the second.
Status BiasSplitGelu(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  const Shape s = c.shape(0);
  const int last = s.rank - 1;
  if (s[last] % 2 != 0)
    return Status::Error(Code::kCorrupt, "%lld features, which have no halves",
                         static_cast<long long>(s[last]));
  RONDO_ASSIGN_OR_RETURN(const NodeId bias, VectorInput(c, 1, s[last]));
  const NodeId x = b.Add(Widen(b, c.In(0)), bias);
  const int64_t half = s[last] / 2;
  const NodeId y = b.Mul(b.Slice(x, last, 0, 1, half), GeluErf(b, b.Slice(x, last, half, 1, half)));
  return c.Give(b.Cast(y, c.dtype(0)));
}

// The softmax of data + bias over all dims from `axis` on. A bias with fewer elements than data is broadcast
// over the dims just before `axis` (is_inner_broadcast), or over the first ones.
Status BiasSoftmax(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloats(0, 1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  const Shape s = c.shape(0);
  RONDO_ASSIGN_OR_RETURN(const int axis, c.Axis(c.Int("axis", 1), s.rank));
  int64_t rows = 1, width = 1;
  for (int d = 0; d < s.rank; ++d) (d < axis ? rows : width) *= s[d];
  const int64_t count = c.shape(1).elements();
  if (rows * width == 0 || count == 0 || count % width != 0 || rows % (count / width) != 0)
    return DoesNotFit(c, 1, s);
  const int64_t own = count / width, times = rows / own;
  const bool inner = c.Int("is_inner_broadcast", 1) != 0;
  const Shape split = inner ? Shape({own, times, width}) : Shape({times, own, width});
  NodeId bias = b.Reshape(Widen(b, c.In(1)), inner ? Shape({own, 1, width}) : Shape({1, own, width}));
  const NodeId y = Softmax(b, b.Add(b.Reshape(Widen(b, c.In(0)), split), bias), 2);
  return c.Give(b.Cast(b.Reshape(y, s), c.dtype(0)));
}

constexpr OpRow kOps[] = {
    {"Gelu", 1, Biased<GeluErf>, 1, kLatest, kDomain},
    {"BiasGelu", 2, Biased<GeluErf>, 1, kLatest, kDomain},
    {"FastGelu", 1, Biased<GeluTanh>, 1, kLatest, kDomain},
    {"QuickGelu", 1, QuickGelu, 1, kLatest, kDomain},
    {"BiasAdd", 3, BiasAdd, 1, kLatest, kDomain},
    {"BiasSplitGelu", 2, BiasSplitGelu, 1, kLatest, kDomain},
    {"BiasSoftmax", 2, BiasSoftmax, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> BiasedOps() { return kOps; }

}  // namespace rondo::importer
