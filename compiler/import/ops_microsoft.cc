// Operators of the domain com.microsoft that exporters and optimisers emit.
#include <algorithm>

#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/import/rotary.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// Input `i` added to y, one-way broadcast, in y's type.
Result<NodeId> AddInput(OpContext& c, NodeId y, int i) {
  if (!c.Has(i)) return y;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  RONDO_ASSIGN_OR_RETURN(Shape shape, c.Broadcast(c.b.shape(y), c.shape(i)));
  if (!(shape == c.b.shape(y))) {
    return Status::Error(Code::kCorrupt, "input %d of shape %s does not broadcast to %s", i,
                         Text(c.shape(i)).c_str(), Text(c.b.shape(y)).c_str());
  }
  return c.b.Add(y, c.b.Cast(c.In(i), c.b.dtype(y)));
}

// An activation of x + bias (input 1, if there is one).
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

// Normalises input + skip + bias; the sum is output 3. `gamma` is input 2.
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

// Input 0 as [b, h, s, d]; `joined`: it is [b, s, h * d].
Result<NodeId> HeadsToRotate(OpContext& c, bool* joined) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 4));
  RONDO_RETURN_IF_ERROR(c.RequireRank(2, 2, 2));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(1));
  const int64_t rotated = c.Int("rotary_embedding_dim", 0), half = c.shape(2)[1];
  if (rotated != 0 && 2 * half != rotated) {
    return Status::Error(Code::kCorrupt, "a cache of shape %s for %lld rotated features",
                         Text(c.shape(2)).c_str(), static_cast<long long>(rotated));
  }
  *joined = c.rank(0) == 3;
  if (!*joined) return c.In(0);
  int64_t heads = c.Int("num_heads", 0);
  if (heads == 0 && rotated == 0 && half > 0) heads = c.shape(0)[2] / (2 * half);
  return SplitHeads(c, c.In(0), heads);
}

Status SetRotated(OpContext& c, NodeId x, const Angles& angles, bool joined) {
  RONDO_ASSIGN_OR_RETURN(NodeId y,
                         RotateHeads(c, x, angles.cosine, angles.sine, c.Int("interleaved", 0) != 0));
  return c.Give(joined ? JoinHeads(c.b, y) : y);
}

// x, positions ([1]: the first one; else [b, s]), cosines and sines [positions, half]. is_packed_batching
// only lets there be more rows than positions, and scale changes nothing in ONNX Runtime: cosines and sines
// have it.
Status RotaryEmbedding(OpContext& c) {
  Builder& b = c.b;
  bool joined = false;
  RONDO_ASSIGN_OR_RETURN(NodeId x, HeadsToRotate(c, &joined));
  const int64_t rows = b.shape(x)[2];
  NodeId position = c.In(1);
  if (c.shape(1).elements() == 1 && c.rank(1) == 1) {
    position = b.Add(b.Cast(position, DType::kI64), b.Iota({rows}, 0));
    position = b.Reshape(position, {1, rows});
  }
  if (b.shape(position).rank != 2) return Status::Error(Code::kCorrupt, "positions do not fit");
  RONDO_ASSIGN_OR_RETURN(const Angles angles, AnglesAt(c, 2, 3, position));
  return SetRotated(c, x, angles, joined);
}

// Which of three positions (in time, of a row, of a column) each of `half` angles is of: the sections one
// after another, or by turns as far as those of rows and columns go, and then of time.
Result<std::vector<int64_t>> StreamsOfAngles(const OpContext& c, int64_t half) {
  const std::vector<int64_t> sections = c.Ints("mrope_section");
  const int64_t layout = c.Int("mrope_layout", 0);
  int64_t sum = 0;
  for (int64_t count : sections) sum += count < 0 || count > half ? half + 1 : count;
  if (sections.size() != 3 || sum != half || layout < 0 || layout > 1) {
    return Status::Error(Code::kCorrupt,
                         "mrope_section of %zu numbers and mrope_layout %lld: three are needed, %lld in all, "
                         "and a layout of 0 or 1",
                         sections.size(), static_cast<long long>(layout), static_cast<long long>(half));
  }
  std::vector<int64_t> streams(static_cast<size_t>(half));
  for (int64_t i = 0; i < half; ++i) {
    const int64_t turn = i % 3, part = i < sections[0] ? 0 : i < sections[0] + sections[1] ? 1 : 2;
    const bool in_turn = i < 3 * sections[static_cast<size_t>(turn)];
    streams[static_cast<size_t>(i)] = layout == 0 ? part : in_turn ? turn : 0;
  }
  return streams;
}

// RotaryEmbedding by positions [3, b, s] (of vision models).
Status MRotaryEmbedding(OpContext& c) {
  Builder& b = c.b;
  bool joined = false;
  RONDO_ASSIGN_OR_RETURN(NodeId x, HeadsToRotate(c, &joined));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 3, 3));
  if (c.shape(1)[0] != 3)
    return Status::Error(Code::kCorrupt, "positions of shape %s; [3, batch, positions] is needed",
                         Text(c.shape(1)).c_str());
  const int64_t half = c.shape(2)[1];
  RONDO_ASSIGN_OR_RETURN(const std::vector<int64_t> streams, StreamsOfAngles(c, half));
  const NodeId stream = b.Ints(DType::kI64, {half}, streams);
  Angles angles;
  for (int64_t i = 0; i < 3; ++i) {
    RONDO_ASSIGN_OR_RETURN(const Angles of, AnglesAt(c, 2, 3, b.Squeeze(b.Slice(c.In(1), 0, i, 1, 1), 0)));
    const NodeId own = b.Binary(TapeOp::kEqual, stream, b.Scalar(DType::kI64, static_cast<double>(i)));
    angles.cosine = i == 0 ? of.cosine : b.Select(own, of.cosine, angles.cosine);
    angles.sine = i == 0 ? of.sine : b.Select(own, of.sine, angles.sine);
  }
  return SetRotated(c, x, angles, joined);
}

// x normalised over each run of as many features as scale (input 1) has, times that and the activated gate.
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

// activation(alpha * op(a) @ op(b)). A vector is one row of a, one column of b, and never transposed.
Status FusedMatMul(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 1, kMaxRank));
  NodeId sides[2] = {c.In(0), c.In(1)};
  const char *names[2] = {"transA", "transB"}, *batches[2] = {"transBatchA", "transBatchB"};
  for (int i = 0; i < 2; ++i) {
    if (c.rank(i) == 1) {
      sides[i] = c.b.Unsqueeze(sides[i], i);
      continue;
    }
    std::vector<int> perm = AxisRange(0, c.rank(i));
    // The first dim goes behind those of the batch.
    if (c.Int(batches[i], 0) != 0 && perm.size() > 2)
      std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
    if (c.Int(names[i], 0) != 0) std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    sides[i] = c.b.Transpose(sides[i], perm);
  }
  const Shape a = c.b.shape(sides[0]), w = c.b.shape(sides[1]);
  Shape outer_a = a, outer_w = w, outer;
  outer_a.rank -= 2;
  outer_w.rank -= 2;
  if (a[a.rank - 1] != w[w.rank - 2] || a[a.rank - 1] == 0 ||
      !ir::BroadcastShapes(outer_a, outer_w, &outer)) {
    return Status::Error(Code::kCorrupt, "shapes %s and %s do not multiply", Text(a).c_str(),
                         Text(w).c_str());
  }
  std::vector<int64_t> dims(outer.begin(), outer.end());
  dims.push_back(a[a.rank - 2]);
  dims.push_back(w[w.rank - 1]);
  RONDO_RETURN_IF_ERROR(c.MakeShape(dims).status());
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  NodeId y = c.b.MatMul(sides[0], sides[1]);
  if (c.rank(1) == 1) y = c.b.Squeeze(y, c.b.shape(y).rank - 1);
  if (c.rank(0) == 1) y = c.b.Squeeze(y, c.b.shape(y).rank - (c.rank(1) == 1 ? 1 : 2));
  float alpha = c.Float("alpha", 1);
  RONDO_ASSIGN_OR_RETURN(y, FusedActivation(c, alpha == 1 ? y : c.b.BinaryScalar(TapeOp::kMul, y, alpha)));
  return c.Give(y);
}

constexpr OpRow kOps[] = {
    {"Gelu", 1, Biased<GeluErf>, 1, kLatest, kDomain},
    {"BiasGelu", 2, Biased<GeluErf>, 1, kLatest, kDomain},
    {"FastGelu", 1, Biased<GeluTanh>, 1, kLatest, kDomain},
    {"QuickGelu", 1, QuickGelu, 1, kLatest, kDomain},
    {"SkipLayerNormalization", 3, SkipNormalization<true>, 1, kLatest, kDomain},
    {"SkipSimplifiedLayerNormalization", 3, SkipNormalization<false>, 1, kLatest, kDomain},
    {"RotaryEmbedding", 4, RotaryEmbedding, 1, kLatest, kDomain},
    {"MRotaryEmbedding", 4, MRotaryEmbedding, 1, kLatest, kDomain},
    {"GatedRMSNorm", 3, GatedRMSNorm, 1, kLatest, kDomain},
    {"FusedMatMul", 2, FusedMatMul, 1, kLatest, kDomain},
    {"TransposeMatMul", 2, FusedMatMul, 1, kLatest, kDomain},
    {"FusedMatMulActivation", 2, FusedMatMul, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> MicrosoftOps() { return kOps; }

}  // namespace rondo::importer
