// Normalisations. Statistics and scaling of 16-bit floats are computed in f32, with one cast at the end.
#include <algorithm>
#include <cmath>

#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

Status RequireElements(const OpContext& c) {
  if (c.shape(0).elements() != 0) return Status::Ok();
  return Status::Error(Code::kUnsupported, "input 0 of shape %s has no elements", Text(c.shape(0)).c_str());
}

// Input `i`, a vector with one value per channel of input 0, widened and aligned with axis 1.
Result<NodeId> PerChannel(OpContext& c, int i) {
  if (c.rank(i) != 1 || c.shape(i)[0] != c.shape(0)[1]) {
    return Status::Error(Code::kCorrupt, "input %d of shape %s for %lld channels", i,
                         Text(c.shape(i)).c_str(), static_cast<long long>(c.shape(0)[1]));
  }
  return AlongAxis(c.b, Widen(c.b, c.In(i)), 1, c.rank(0));
}

// Training mode: uses the batch's own statistics, and updates the running ones, which are outputs 1 and 2.
void MoveStatistics(OpContext& c, NodeId* mean, NodeId* variance) {
  Builder& b = c.b;
  std::vector<int> others = {0};
  for (int d = 2; d < c.rank(0); ++d) others.push_back(d);
  const NodeId x = b.Cast(c.In(0), b.dtype(*mean)), own_mean = b.Mean(x, others, true);
  const NodeId apart = b.Sub(x, own_mean), own_variance = b.Mean(b.Mul(apart, apart), others, true);
  const double momentum = c.Float("momentum", 0.9f);
  const auto move = [&](int output, NodeId* running, NodeId own) {
    const NodeId kept = b.BinaryScalar(TapeOp::kMul, *running, momentum);
    const NodeId moved = b.Add(kept, b.BinaryScalar(TapeOp::kMul, own, 1 - momentum));
    c.Set(output, b.Cast(b.Reshape(moved, c.shape(output + 2)), c.dtype(output + 2)));
    *running = own;
  };
  move(1, mean, own_mean);
  move(2, variance, own_variance);
}

// x * scale + shift, both computed at compile time if they are known.
Status BatchNormalization(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, kMaxRank));
  Builder& b = c.b;
  NodeId parts[4];
  for (int i = 0; i < 4; ++i) {
    RONDO_RETURN_IF_ERROR(c.RequireFloat(i + 1));
    RONDO_ASSIGN_OR_RETURN(parts[i], PerChannel(c, i + 1));
    if (b.dtype(parts[i]) != b.dtype(parts[0])) parts[i] = b.Cast(parts[i], b.dtype(parts[0]));
  }
  if (c.Int("training_mode", 0) != 0) {
    RONDO_RETURN_IF_ERROR(RequireElements(c));
    MoveStatistics(c, &parts[2], &parts[3]);
  }
  NodeId deviation =
      b.Unary(TapeOp::kSqrt, b.BinaryScalar(TapeOp::kAdd, parts[3], c.Float("epsilon", 1e-5f)));
  NodeId scale = b.Div(parts[0], deviation);
  NodeId shift = b.Sub(parts[1], b.Mul(parts[2], scale));
  NodeId x = b.Cast(c.In(0), b.dtype(scale));
  return c.Give(b.Cast(b.Add(b.Mul(x, scale), shift), c.dtype(0)));
}

// y * scale + bias (inputs `scale` and `bias`, both optional), which broadcast to y.
Result<NodeId> ScaleAndShift(OpContext& c, NodeId y, int scale, int bias) {
  for (int i : {scale, bias}) {
    if (!c.Has(i)) continue;
    RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
    NodeId v = c.b.Cast(c.In(i), c.b.dtype(y));
    RONDO_ASSIGN_OR_RETURN(Shape shape, c.Broadcast(c.b.shape(y), c.b.shape(v)));
    if (!(shape == c.b.shape(y))) {
      return Status::Error(Code::kCorrupt, "input %d of shape %s does not broadcast to %s", i,
                           Text(c.shape(i)).c_str(), Text(c.b.shape(y)).c_str());
    }
    y = i == scale ? c.b.Mul(y, v) : c.b.Add(y, v);
  }
  return y;
}

Status LayerNormalization(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(RequireElements(c));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", -1), c.rank(0)));
  NodeId mean = kNoNode, inverse = kNoNode;
  NodeId y = Standardise(c.b, Widen(c.b, c.In(0)), AxisRange(axis, c.rank(0)), c.Float("epsilon", 1e-5f),
                         &mean, &inverse);
  RONDO_ASSIGN_OR_RETURN(y, ScaleAndShift(c, y, 1, 2));
  c.Set(0, c.b.Cast(y, c.dtype(0)));
  c.Set(1, mean);
  c.Set(2, inverse);
  return Status::Ok();
}

Status RMSNormalization(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(RequireElements(c));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", -1), c.rank(0)));
  NodeId y = RmsNormalise(c.b, Widen(c.b, c.In(0)), AxisRange(axis, c.rank(0)), c.Float("epsilon", 1e-5f));
  RONDO_ASSIGN_OR_RETURN(y, ScaleAndShift(c, y, 1, -1));
  return c.Give(c.b.Cast(y, c.dtype(0)));
}

// x [n, c, ...] normalised to mean 0 and variance 1 over each of `groups` groups of channels, widened.
Result<NodeId> OverGroups(OpContext& c, int64_t groups, double epsilon) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, kMaxRank));
  RONDO_RETURN_IF_ERROR(RequireElements(c));
  const Shape& x = c.shape(0);
  if (groups < 1 || x[1] % groups != 0) {
    return Status::Error(Code::kCorrupt, "%lld channels in %lld groups", static_cast<long long>(x[1]),
                         static_cast<long long>(groups));
  }
  NodeId flat = c.b.Reshape(Widen(c.b, c.In(0)), {x[0], groups, x.elements() / (x[0] * groups)});
  return Standardise(c.b, flat, {2}, epsilon);
}

// Scale and bias have one value per channel from opset 21 on, and one per group before.
Status GroupNormalization(OpContext& c) {
  int64_t groups = c.Int("num_groups", 0);
  RONDO_ASSIGN_OR_RETURN(NodeId y, OverGroups(c, groups, c.Float("epsilon", 1e-5f)));
  bool per_group = c.opset < 21;
  if (per_group && (c.rank(1) != 1 || c.shape(1)[0] != groups || c.rank(2) != 1 || c.shape(2)[0] != groups)) {
    return Status::Error(Code::kCorrupt, "scale of shape %s for %lld groups", Text(c.shape(1)).c_str(),
                         static_cast<long long>(groups));
  }
  NodeId scale = kNoNode, bias = kNoNode;
  if (per_group) {
    scale = AlongAxis(c.b, c.b.Cast(c.In(1), c.b.dtype(y)), 1, 3);
    bias = AlongAxis(c.b, c.b.Cast(c.In(2), c.b.dtype(y)), 1, 3);
  } else {
    y = c.b.Reshape(y, c.shape(0));
    RONDO_ASSIGN_OR_RETURN(scale, PerChannel(c, 1));
    RONDO_ASSIGN_OR_RETURN(bias, PerChannel(c, 2));
    scale = c.b.Cast(scale, c.b.dtype(y));
    bias = c.b.Cast(bias, c.b.dtype(y));
  }
  y = c.b.Add(c.b.Mul(y, scale), bias);
  return c.Give(c.b.Cast(c.b.Reshape(y, c.shape(0)), c.dtype(0)));
}

Status InstanceNormalization(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, kMaxRank));
  RONDO_ASSIGN_OR_RETURN(NodeId y, OverGroups(c, c.shape(0)[1], c.Float("epsilon", 1e-5f)));
  y = c.b.Reshape(y, c.shape(0));
  RONDO_ASSIGN_OR_RETURN(NodeId scale, PerChannel(c, 1));
  RONDO_ASSIGN_OR_RETURN(NodeId bias, PerChannel(c, 2));
  y = c.b.Add(c.b.Mul(y, c.b.Cast(scale, c.b.dtype(y))), c.b.Cast(bias, c.b.dtype(y)));
  return c.Give(c.b.Cast(y, c.dtype(0)));
}

// x / |x|_p; a vector of norm 0 stays 0.
Status LpNormalization(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(RequireElements(c));
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", -1), c.rank(0)));
  Builder& b = c.b;
  int64_t p = c.Int("p", 2);
  if (p != 1 && p != 2) return Status::Error(Code::kCorrupt, "p of %lld", static_cast<long long>(p));
  NodeId x = Widen(b, c.In(0));
  NodeId power = p == 1 ? b.Unary(TapeOp::kAbs, x) : b.Mul(x, x);
  NodeId norm = b.Reduce(ir::ReduceKind::kSum, power, {axis}, true);
  if (p == 2) norm = b.Unary(TapeOp::kSqrt, norm);
  NodeId none = b.Binary(TapeOp::kEqual, norm, b.Scalar(b.dtype(x), 0));
  norm = b.Select(none, b.Scalar(b.dtype(x), 1), norm);
  return c.Give(b.Cast(b.Div(x, norm), c.dtype(0)));
}

// x / (bias + alpha / size * sum of squares over `size` neighbouring channels)^beta.
Status LRN(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, kMaxRank));
  RONDO_RETURN_IF_ERROR(RequireElements(c));
  Builder& b = c.b;
  const Shape shape = c.shape(0);
  int64_t size = c.Int("size", 0);
  if (size < 1 || size > 1 << 20)
    return Status::Error(Code::kCorrupt, "size %lld", static_cast<long long>(size));
  NodeId x = Widen(b, c.In(0));
  NodeId square = b.Reshape(b.Mul(x, x), {shape[0], 1, shape[1], shape.elements() / (shape[0] * shape[1])});
  ir::PoolAttrs pool{Combine::kSum, {size, 1}, {1, 1}, {1, 1}, {(size - 1) / 2, 0}, {size / 2, 0}};
  NodeId sum = b.Reshape(b.Pool(square, pool), shape);
  NodeId base = b.BinaryScalar(TapeOp::kMul, sum, c.Float("alpha", 1e-4f) / static_cast<float>(size));
  base = b.BinaryScalar(TapeOp::kAdd, base, c.Float("bias", 1));
  NodeId y = b.Div(x, b.BinaryScalar(TapeOp::kPow, base, c.Float("beta", 0.75f)));
  return c.Give(b.Cast(y, c.dtype(0)));
}

Status MeanVarianceNormalization(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(RequireElements(c));
  std::vector<int64_t> list = c.HasAttribute("axes") ? c.Ints("axes") : std::vector<int64_t>{0, 2, 3};
  RONDO_ASSIGN_OR_RETURN(std::vector<int> axes, c.Axes(list, c.rank(0)));
  Builder& b = c.b;
  NodeId x = Widen(b, c.In(0));
  NodeId d = b.Sub(x, b.Mean(x, axes, true));
  NodeId deviation = b.Unary(TapeOp::kSqrt, b.Mean(b.Mul(d, d), axes, true));
  return c.Give(b.Cast(b.Div(d, b.BinaryScalar(TapeOp::kAdd, deviation, 1e-9)), c.dtype(0)));
}

constexpr OpRow kOps[] = {
    {"BatchNormalization", 5, BatchNormalization},
    {"LayerNormalization", 2, LayerNormalization},
    {"RMSNormalization", 2, RMSNormalization},
    {"SimplifiedLayerNormalization", 2, RMSNormalization},
    {"GroupNormalization", 3, GroupNormalization},
    {"InstanceNormalization", 3, InstanceNormalization},
    {"LpNormalization", 1, LpNormalization},
    {"LRN", 1, LRN},
    {"MeanVarianceNormalization", 1, MeanVarianceNormalization},
};

}  // namespace

Span<const OpRow> NormalisationOps() { return kOps; }

}  // namespace rondo::importer
