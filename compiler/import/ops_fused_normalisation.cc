// com.microsoft operators that combine a norm with other work: a residual and a bias, groups of channels, a
// gate.
#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// Normalises input + skip + bias. The sum is output 3, and `gamma` is input 2.
template <bool kCentre>
Status SkipNormalization(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  if (c.shape(0).elements() == 0) return Status::Error(Code::kCorrupt, "input 0 has no elements");
  Builder& b = c.b;
  int beta = kCentre ? 3 : -1, bias = kCentre ? 4 : 3;
  RONDO_ASSIGN_OR_RETURN(NodeId sum, AddInput(c, Widen(b, c.In(0)), 1));
  RONDO_ASSIGN_OR_RETURN(sum, AddInput(c, sum, bias));
  std::vector<int> axes = {c.rank(0) - 1};
  double epsilon = c.Float("epsilon", 1e-12f);
  NodeId mean = kNoNode, inverse = kNoNode;
  NodeId y = kCentre ? Standardise(b, sum, axes, epsilon, &mean, &inverse)
                     : RmsNormalise(b, sum, axes, epsilon, &inverse);
  RONDO_ASSIGN_OR_RETURN(Shape shape, c.Broadcast(c.shape(0), c.shape(2)));
  if (!(shape == c.shape(0))) return Status::Error(Code::kCorrupt, "gamma does not broadcast");
  y = b.Mul(y, b.Cast(c.In(2), b.dtype(y)));
  if (beta >= 0) {
    RONDO_ASSIGN_OR_RETURN(y, AddInput(c, y, beta));
  }
  c.Set(0, b.Cast(y, c.dtype(0)));
  if (!kCentre && c.Wants(1)) mean = b.Expand(b.Scalar(DType::kF32, 0), b.shape(inverse));
  if (c.Wants(1)) c.Set(1, b.Cast(mean, DType::kF32));
  if (c.Wants(2)) c.Set(2, b.Cast(inverse, DType::kF32));
  if (c.Wants(3)) c.Set(3, b.Cast(sum, c.dtype(0)));
  return Status::Ok();
}

// X [n, h, w, c] (or channels first), gamma, beta. SkipGroupNorm normalises the sum of X with skip [n, h, w,
// c], [n, 1, 1, c] or [n, c] and with a bias [c]. The sum is rounded to X's type and is output 1.
template <bool kSkip>
Status GroupNorm(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 4, 4));
  const bool last = c.Int("channels_last", 1) != 0;
  const int64_t groups = c.Int("groups", 0), activation = c.Int("activation", 0);
  const Shape given = c.shape(0);
  const int64_t channels = given[last ? 3 : 1];
  if (given.elements() == 0 || groups < 1 || channels % groups != 0 || activation < 0 || activation > 1)
    return Status::Error(Code::kCorrupt, "X of shape %s in %lld groups, with the activation %lld",
                         Text(given).c_str(), static_cast<long long>(groups),
                         static_cast<long long>(activation));
  NodeId x = Widen(b, last ? c.In(0) : b.Transpose(c.In(0), {0, 2, 3, 1}));
  const Shape s = b.shape(x);
  if (kSkip) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 3));
    NodeId skip = c.In(3);
    const Shape of = c.shape(3), each{s[0], 1, 1, s[3]};
    if (of == Shape({s[0], s[3]})) {
      skip = b.Reshape(skip, each);
    } else if (!last && of == given) {
      skip = b.Transpose(skip, {0, 2, 3, 1});
    } else if (!(of == each) && !(last && of == s)) {
      return DoesNotFit(c, 3, given);
    }
    x = b.Add(x, Widen(b, skip));
    if (c.Has(4)) {
      RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 4));
      RONDO_ASSIGN_OR_RETURN(const NodeId bias, VectorInput(c, 4, channels));
      x = b.Add(x, bias);
    }
    x = b.Cast(x, c.dtype(0));
    if (c.Wants(1)) c.Set(1, last ? x : b.Transpose(x, {0, 3, 1, 2}));
    x = Widen(b, x);
  }
  NodeId y = b.Reshape(x, {s[0], s[1] * s[2], groups, s[3] / groups});
  y = b.Reshape(Standardise(b, y, {1, 3}, c.Float("epsilon", 1e-5f)), s);
  RONDO_ASSIGN_OR_RETURN(const NodeId gamma, VectorInput(c, 1, channels));
  RONDO_ASSIGN_OR_RETURN(const NodeId beta, VectorInput(c, 2, channels));
  y = b.Add(b.Mul(y, gamma), beta);
  if (activation == 1) y = Silu(b, y);
  y = b.Cast(y, c.dtype(0));
  return c.Give(last ? y : b.Transpose(y, {0, 3, 1, 2}));
}

// x normalised over each run of as many features as scale (input 1) has, times scale and the activated gate.
Status GatedRMSNorm(OpContext& c) {
  Builder& b = c.b;
  for (int i = 0; i < 3; ++i) RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank - 1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 1, 1));
  const Shape s = c.shape(0);
  const int64_t width = s[s.rank - 1], run = c.shape(1)[0];
  if (s.elements() == 0 || run == 0 || width % run != 0 || !(c.shape(2) == s)) {
    return Status::Error(Code::kCorrupt, "X of shape %s, scale of %s and gate of %s do not fit",
                         Text(s).c_str(), Text(c.shape(1)).c_str(), Text(c.shape(2)).c_str());
  }
  const std::string activation = c.String("activation", "silu");
  const bool silu = activation == "silu" || activation == "swish";
  if (!silu && activation != "sigmoid")
    return Status::Error(Code::kCorrupt, "activation \"%.40s\" is none of silu, swish and sigmoid",
                         activation.c_str());
  Shape runs = s;
  runs.dims[runs.rank++] = run;
  runs[s.rank - 1] = width / run;
  NodeId y = RmsNormalise(b, b.Reshape(Widen(b, c.In(0)), runs), {s.rank}, c.Float("epsilon", 1e-5f));
  y = b.Reshape(b.Mul(y, b.Cast(c.In(1), b.dtype(y))), s);
  const NodeId gate = Widen(b, c.In(2));
  return c.Give(b.Cast(b.Mul(y, silu ? Silu(b, gate) : Sigmoid(b, gate)), c.dtype(0)));
}

constexpr OpRow kOps[] = {
    {"SkipLayerNormalization", 3, SkipNormalization<true>, 1, kLatest, kDomain},
    {"SkipSimplifiedLayerNormalization", 3, SkipNormalization<false>, 1, kLatest, kDomain},
    {"GroupNorm", 3, GroupNorm<false>, 1, kLatest, kDomain},
    {"SkipGroupNorm", 4, GroupNorm<true>, 1, kLatest, kDomain},
    {"GatedRMSNorm", 3, GatedRMSNorm, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> FusedNormalisationOps() { return kOps; }

}  // namespace rondo::importer
