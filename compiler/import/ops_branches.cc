// Operators of com.microsoft for models with several residual streams (hyper-connections) and gates: those
// with branches side by side, and small elementwise ones of such models.
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr char kDomain[] = "com.microsoft";

// Input 0 as [..., branches, features]: it has both dims, or the attribute num_branches splits its last dim.
Result<Shape> Branches(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank - 2));
  Shape s = c.shape(0);
  const int64_t branches = c.Int("num_branches", 0), width = s[s.rank - 1];
  if (branches == 0 && s.rank >= 2 && s.elements() > 0) return s;
  if (branches < 1 || s.elements() == 0 || width % branches != 0) {
    return Status::Error(Code::kCorrupt, "input 0 of shape %s in %lld branches", Text(s).c_str(),
                         static_cast<long long>(branches));
  }
  s.dims[s.rank++] = width / branches;
  s[s.rank - 2] = branches;
  return s;
}

Status BadShape(OpContext& c, int i, const Shape& branches) {
  return Status::Error(Code::kCorrupt, "input %d of shape %s for branches of %s", i, Text(c.shape(i)).c_str(),
                       Text(branches).c_str());
}

// A gate per branch, [..., C] or [..., C, 1], or per feature of it, as f32 that broadcasts to `s`.
Result<NodeId> Gate(OpContext& c, int i, const Shape& s) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  const NodeId x = c.b.Cast(c.In(i), DType::kF32);
  Shape each = s, flat = s;
  each.rank = flat.rank = s.rank - 1;
  flat[flat.rank - 1] = s[s.rank - 2] * s[s.rank - 1];
  if (c.shape(i) == s || c.shape(i) == WithDim(s, s.rank - 1, 1)) return x;
  if (c.shape(i) == each) return c.b.Unsqueeze(x, s.rank - 1);
  if (c.Int("num_branches", 0) != 0 && c.shape(i) == flat) return c.b.Reshape(x, s);
  return BadShape(c, i, s);
}

Status BranchwiseRmsNorm(OpContext& c) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(const Shape s, Branches(c));
  NodeId y =
      RmsNormalise(b, b.Reshape(b.Cast(c.In(0), DType::kF32), s), {s.rank - 1}, c.Float("epsilon", 1e-5f));
  if (c.Has(1)) {
    RONDO_RETURN_IF_ERROR(c.RequireFloat(1));
    const int64_t branches = s[s.rank - 2], features = s[s.rank - 1], count = c.shape(1).elements();
    if (c.rank(1) > 2 || (count != features && count != branches * features) ||
        (c.rank(1) == 2 && !(c.shape(1) == Shape({branches, features}))))
      return BadShape(c, 1, s);
    const NodeId scale = b.Cast(c.In(1), DType::kF32);
    y = b.Mul(y, count == features ? b.Reshape(scale, {features}) : b.Reshape(scale, {branches, features}));
  }
  return c.Give(b.Cast(b.Reshape(y, c.shape(0)), c.dtype(0)));
}

// The sum of the streams, each times its gate.
Status HyperConnectionPreMix(OpContext& c) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(const Shape s, Branches(c));
  RONDO_ASSIGN_OR_RETURN(const NodeId gate, Gate(c, 1, s));
  const NodeId streams = b.Reshape(b.Cast(c.In(0), DType::kF32), s);
  NodeId y = b.Reduce(ir::ReduceKind::kSum, b.Mul(streams, gate), {s.rank - 2}, false);
  return c.Give(b.Cast(b.BinaryScalar(TapeOp::kMul, y, c.Float("reduction_scale", 1)), c.dtype(0)));
}

// The streams mixed by a matrix, whose row c holds the weights of stream c in every result, plus the block's
// output times each stream's gate.
Status HyperConnectionPostMix(OpContext& c) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(const Shape s, Branches(c));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(1));
  RONDO_ASSIGN_OR_RETURN(const NodeId gate, Gate(c, 2, s));
  Shape one = s;
  one.rank = s.rank - 1;
  one[one.rank - 1] = s[s.rank - 1];
  if (!(c.shape(1) == one)) return BadShape(c, 1, s);
  NodeId streams = b.Reshape(b.Cast(c.In(0), DType::kF32), s);
  if (c.Has(3)) {
    RONDO_RETURN_IF_ERROR(c.RequireFloat(3));
    if (!(c.shape(3) == WithDim(s, s.rank - 1, s[s.rank - 2]))) return BadShape(c, 3, s);
    std::vector<int> perm = AxisRange(0, s.rank);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    streams = b.MatMul(b.Transpose(b.Cast(c.In(3), DType::kF32), perm), streams);
  }
  const NodeId block = b.Unsqueeze(b.Cast(c.In(1), DType::kF32), s.rank - 2);
  const NodeId y = b.Add(streams, b.Mul(gate, block));
  return c.Give(b.Cast(b.Reshape(y, c.shape(0)), c.dtype(0)));
}

// X + Y * gate, with the multiplication rounded to their type. A gate may be given as sigmoid(gate @
// gate_weight), with each step rounded.
Status GatedAdd(OpContext& c) {
  Builder& b = c.b;
  for (int i = 0; i < 3; ++i) RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  for (int i = 1; i < 3; ++i) RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
  const Shape x = c.shape(0), g = c.shape(2);
  if (x.rank < 1 || !(c.shape(1) == x) || g.rank != x.rank ||
      !(WithDim(g, g.rank - 1, 1) == WithDim(x, x.rank - 1, 1)))
    return Status::Error(Code::kCorrupt, "X of shape %s, Y of %s and a gate of %s do not fit",
                         Text(x).c_str(), Text(c.shape(1)).c_str(), Text(g).c_str());
  NodeId gate = c.In(2);
  if (c.Has(3)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 3));
    if (!(c.shape(3) == Shape({g[g.rank - 1], 1})))
      return Status::Error(Code::kCorrupt, "gate_weight of shape %s for a gate of %s",
                           Text(c.shape(3)).c_str(), Text(g).c_str());
    if (g.elements() == 0) return Status::Error(Code::kCorrupt, "a gate of shape %s", Text(g).c_str());
    const int last = g.rank - 1;
    NodeId sum = b.Mul(Widen(b, gate), b.Reshape(Widen(b, c.In(3)), {g[last]}));
    sum = b.Cast(b.Reduce(ir::ReduceKind::kSum, sum, {last}, true), c.dtype(0));
    gate = b.Cast(Sigmoid(b, Widen(b, sum)), c.dtype(0));
  } else if (g[g.rank - 1] != 1) {
    return Status::Error(Code::kCorrupt, "a gate of shape %s; its last dimension is 1 without gate_weight",
                         Text(g).c_str());
  }
  const NodeId product = b.Cast(b.Mul(Widen(b, c.In(1)), Widen(b, gate)), c.dtype(0));
  return c.Give(b.Cast(b.Add(Widen(b, c.In(0)), Widen(b, product)), c.dtype(0)));
}

// z * sigmoid(z) with z = scale * x, each step rounded to x's type.
Status ScaledSilu(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  const DType type = c.dtype(0);
  const NodeId x = Widen(b, c.In(0));
  NodeId scale = b.Scalar(b.dtype(x), c.Float("alpha", 1));
  if (c.Has(1)) {
    RONDO_RETURN_IF_ERROR(c.RequireFloat(1));
    if (c.shape(1).elements() != 1)
      return Status::Error(Code::kCorrupt, "a scale of shape %s; one number is needed",
                           Text(c.shape(1)).c_str());
    scale = b.Cast(b.Reshape(c.In(1), Shape{}), b.dtype(x));
  }
  const NodeId z = Widen(b, b.Cast(b.Mul(x, scale), type));
  const NodeId gate = Widen(b, b.Cast(Sigmoid(b, z), type));
  return c.Give(b.Cast(b.Mul(z, gate), type));
}

// g * sigmoid(alpha * g) * (l + beta), of a gate g and a linear half l that are both clamped. They are two
// inputs, or the halves of one, with the gate first.
Status ClampedSwiGlu(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  const DType type = c.dtype(0);
  NodeId gate = Widen(b, c.In(0)), up = kNoNode;
  if (c.Has(1)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
    if (!(c.shape(0) == c.shape(1)))
      return Status::Error(Code::kCorrupt, "a gate of shape %s for %s", Text(c.shape(0)).c_str(),
                           Text(c.shape(1)).c_str());
    up = Widen(b, c.In(1));
  } else {
    const int last = c.rank(0) - 1;
    if (last < 0 || c.shape(0)[last] % 2 != 0)
      return Status::Error(Code::kCorrupt, "both halves in one input of shape %s", Text(c.shape(0)).c_str());
    const int64_t half = c.shape(0)[last] / 2;
    up = b.Slice(gate, last, half, 1, half);
    gate = b.Slice(gate, last, 0, 1, half);
  }
  if (const double limit = c.Float("limit", 0); limit > 0) {
    gate = b.BinaryScalar(TapeOp::kMin, gate, limit);
    up = Clamp(b, up, -limit, limit);
  }
  const double alpha = c.Float("activation_alpha", 1), beta = c.Float("activation_beta", 0);
  NodeId y = b.Mul(gate, Sigmoid(b, b.BinaryScalar(TapeOp::kMul, gate, alpha)));
  if (c.Int("round_activation", 0) != 0) y = Widen(b, b.Cast(y, type));
  if (beta != 0) up = b.BinaryScalar(TapeOp::kAdd, up, beta);
  return c.Give(b.Cast(b.Mul(y, up), type));
}

constexpr OpRow kOps[] = {
    {"BranchwiseRMSNorm", 1, BranchwiseRmsNorm, 1, kLatest, kDomain},
    {"HyperConnectionPreMix", 2, HyperConnectionPreMix, 1, kLatest, kDomain},
    {"HyperConnectionPostMix", 3, HyperConnectionPostMix, 1, kLatest, kDomain},
    {"GatedAdd", 3, GatedAdd, 1, kLatest, kDomain},
    {"ScaledSiLU", 1, ScaledSilu, 1, kLatest, kDomain},
    {"SwiGLU", 1, ClampedSwiGlu, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> BranchOps() { return kOps; }

}  // namespace rondo::importer
