// MultiHeadAttention and Attention of com.microsoft: every query head has its own keys and values.
#include <cmath>
#include <limits>

#include "compiler/import/cached_attention.h"
#include "compiler/import/decompose.h"
#include "compiler/import/multi_head.h"
#include "compiler/import/registry.h"
#include "compiler/import/rotary.h"

namespace rondo::importer {

namespace {

// A mask of t keys, bool [b, 1, 1, t]: true below `end` (i64 [b]) and, if `begin` is given, from `begin` on.
NodeId Between(Builder& b, NodeId begin, NodeId end, const ir::Size& t) {
  const auto stand = [&](NodeId x) { return b.Reshape(b.Cast(x, DType::kI64), {b.shape(x)[0], 1, 1, 1}); };
  NodeId key = b.IotaOver({t}, 0);
  NodeId keep = b.Binary(TapeOp::kLess, key, stand(end));
  if (begin == kNoNode) return keep;
  return b.Binary(TapeOp::kBitAnd, b.Cast(keep, DType::kI32),
                  b.Cast(b.Binary(TapeOp::kLessEqual, stand(begin), key), DType::kI32));
}

// The mask of input `i` in any of its shapes, nonzero where keys are kept; it broadcasts to [b, h, s, t].
Result<NodeId> ReadKeep(OpContext& c, int i, const Shape& scores, const MultiHead& h) {
  RONDO_RETURN_IF_ERROR(c.RequireInteger(i));
  Builder& b = c.b;
  NodeId mask = c.In(i);
  const int64_t n = scores[0], s = scores[2], t = scores[3];
  const ir::Size keys = b.SizeOf(h.k, 2);
  if (h.held != kNoNode && c.rank(i) >= 2) {  // the mask covers only the filled positions
    RONDO_ASSIGN_OR_RETURN(mask, AsLong(c, i, t));
  }
  const Shape m = b.shape(mask);
  if (m == Shape({n})) return Between(b, kNoNode, mask, keys);
  // Lengths, followed by the rows' offsets if padding is removed.
  if (m == Shape({3 * n + 2})) return Between(b, kNoNode, b.Slice(mask, 0, 0, 1, n), keys);
  if (m == Shape({2 * n})) return Between(b, b.Slice(mask, 0, n, 1, n), b.Slice(mask, 0, 0, 1, n), keys);
  if (m == Shape({n, t})) return b.Reshape(mask, {n, 1, 1, t});
  if (m == Shape({n, s, t})) return b.Reshape(mask, {n, 1, s, t});
  if (m.rank == 4 && m[0] == n && m[1] == 1 && m[2] == m[3] && m[3] >= t && h.past.extent() + s <= m[2])
    return SliceOf(b, SliceOf(b, mask, 2, h.past, 1, s), 3, 0, 1, keys);
  return Status::Error(
      Code::kUnsupported,
      "a mask of shape %s for %lld batch entries, %lld queries and %lld keys: rondo knows [b], "
      "[2b], [3b + 2], [b, keys], [b, queries, keys] and [b, 1, n, n]; export the model with one of them",
      Text(m).c_str(), static_cast<long long>(n), static_cast<long long>(s), static_cast<long long>(t));
}

// Input `i` as a bias that is added to the scores.
Result<NodeId> ReadBias(OpContext& c, int i, const Shape& scores, bool longer) {
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
  NodeId bias = c.In(i);
  if (longer) {
    RONDO_ASSIGN_OR_RETURN(bias, AsLong(c, i, scores[3]));
  }
  const Shape s = c.b.shape(bias);
  RONDO_ASSIGN_OR_RETURN(Shape both, c.Broadcast(s, scores));
  if (s.rank != 4 || !(both == scores) || s[2] != scores[2] || s[3] != scores[3]) {
    return Status::Error(Code::kCorrupt, "attention_bias of shape %s for scores of shape %s",
                         Text(c.shape(i)).c_str(), Text(scores).c_str());
  }
  return bias;
}

// The number of keys that each query of `q` sees, if these are the first ones, [1, 1, s]; kNoNode if it sees
// all of `t`.
Result<NodeId> ReadLimit(OpContext& c, const Shape& q, const ir::Size& past, NodeId held, int64_t t) {
  if (held != kNoNode) {
    const NodeId own = c.Int("unidirectional", 0) != 0
                           ? c.b.BinaryScalar(TapeOp::kAdd, c.b.Iota({1, 1, q[2]}, 2), 1)
                           : c.b.Expand(c.b.Scalar(DType::kI64, static_cast<double>(q[2])), {1, 1, q[2]});
    return c.b.Add(own, held);
  }
  if (c.Int("unidirectional", 0) == 0) return kNoNode;
  if (past.extent() + q[2] != t) {
    if (q[2] == 1) return kNoNode;  // a single query is the last one, and sees all keys
    return Status::Error(
        Code::kUnsupported,
        "unidirectional with %lld queries over %lld keys, %lld of them past: it does not say "
        "which key each query stands at; export the model with a mask (attention_bias)",
        static_cast<long long>(q[2]), static_cast<long long>(t), static_cast<long long>(past.extent()));
  }
  return c.b.Add(c.b.Iota({1, 1, q[2]}, 2), c.b.Number(past + 1));
}

}  // namespace

// ------------------------------------------------------------------------ shared with QAttention

Status CheckMultiHead(const OpContext& c, const MultiHead& h) {
  const Shape q = c.b.shape(h.q), k = c.b.shape(h.k), v = c.b.shape(h.v);
  if (q[0] != k[0] || k[0] != v[0] || q[1] != k[1] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3] ||
      q.elements() == 0 || k.elements() == 0 || v.elements() == 0) {
    return Status::Error(Code::kCorrupt, "queries %s, keys %s and values %s do not fit", Text(q).c_str(),
                         Text(k).c_str(), Text(v).c_str());
  }
  return Status::Ok();
}

Result<NodeId> AttendHeads(OpContext& c, const MultiHead& h, NodeId* qk) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(CheckMultiHead(c, h));
  const Shape q = b.shape(h.q), k = b.shape(h.k);
  const Shape scores = {q[0], q[1], q[2], k[2]};
  AttentionRequest request;
  request.attrs.scale = c.Float("scale", 0);
  if (request.attrs.scale == 0) request.attrs.scale = 1.0f / std::sqrt(static_cast<float>(q[3]));
  if (c.Has(h.mask_input)) {
    RONDO_ASSIGN_OR_RETURN(NodeId keep, ReadKeep(c, h.mask_input, scores, h));
    NodeId dropped = b.Binary(TapeOp::kEqual, keep, b.Scalar(b.dtype(keep), 0));
    const double filter = c.Float("mask_filter_value", -10000.0f);
    request.bias = b.Select(dropped, b.Scalar(DType::kF32, filter), b.Scalar(DType::kF32, 0));
  }
  if (c.Has(h.bias_input)) {
    RONDO_ASSIGN_OR_RETURN(NodeId bias, ReadBias(c, h.bias_input, scores, h.held != kNoNode));
    bias = b.Cast(bias, DType::kF32);
    request.bias = request.bias == kNoNode ? bias : b.Add(request.bias, bias);
  }
  if (request.bias != kNoNode) request.bias = b.Cast(request.bias, b.dtype(h.q));
  RONDO_ASSIGN_OR_RETURN(request.limit, ReadLimit(c, q, h.past, h.held, k[2]));
  if (qk != nullptr) {  // scores of unseen keys are the least number
    const double least = b.dtype(h.q) == DType::kF16    ? -65504
                         : b.dtype(h.q) == DType::kBF16 ? -0x1.fep127
                                                        : double{std::numeric_limits<float>::lowest()};
    const NodeId x = Scores(b, h.q, h.k, request, ScoreStage::kMasked);
    *qk = request.limit == kNoNode ? x : b.Binary(TapeOp::kMax, x, b.Scalar(b.dtype(x), least));
  }
  return JoinHeads(b, Attend(b, h.q, h.k, h.v, request));
}

Result<NodeId> AppendRows(OpContext& c, NodeId past, NodeId now) {
  const Shape p = c.b.shape(past), s = c.b.shape(now);
  if (p.rank != 4 || !(WithDim(p, 2, 0) == WithDim(s, 2, 0)) || c.b.dtype(past) != c.b.dtype(now)) {
    return Status::Error(Code::kCorrupt, "past of shape %s before %s", Text(p).c_str(), Text(s).c_str());
  }
  return p[2] == 0 ? now : c.b.Concat({past, now}, 2);
}

Result<NodeId> ReadHeld(OpContext& c, int i, bool always) {
  if (!always && c.Int("past_present_share_buffer", 0) == 0) return kNoNode;
  if (!c.Has(i) || c.shape(i).elements() != 1)
    return Status::Error(Code::kCorrupt,
                         "past_present_share_buffer needs the input past_sequence_length, one number");
  RONDO_RETURN_IF_ERROR(c.RequireInteger(i));
  return c.b.Reshape(c.b.Cast(c.In(i), DType::kI64), Shape{});
}

Result<NodeId> WithRows(OpContext& c, NodeId past, NodeId now, NodeId held) {
  if (held == kNoNode) return AppendRows(c, past, now);
  const Shape p = c.b.shape(past), s = c.b.shape(now);
  if (p.rank != 4 || !(WithDim(p, 2, s[2]) == s) || p[2] < s[2] || c.b.dtype(past) != c.b.dtype(now)) {
    return Status::Error(Code::kCorrupt, "a cache of shape %s for rows of shape %s", Text(p).c_str(),
                         Text(s).c_str());
  }
  return WriteRows(c.b, past, now, c.b.Add(c.b.Iota({1, 1, s[2], 1}, 2), held), 2);
}

Result<NodeId> AsLong(OpContext& c, int i, int64_t keys) {
  const Shape s = c.shape(i);
  if (s.rank == 0 || s[s.rank - 1] > keys) {
    return Status::Error(Code::kCorrupt, "input %d of shape %s for %lld keys", i, Text(s).c_str(),
                         static_cast<long long>(keys));
  }
  std::vector<int64_t> before(static_cast<size_t>(s.rank)), after = before;
  after.back() = keys - s[s.rank - 1];
  return c.b.PadConstant(c.In(i), c.b.Scalar(c.dtype(i), 0), before, after);
}

namespace {

// ------------------------------------------------------------------------------ MultiHeadAttention

enum MhaInput { kQuery, kKey, kValue, kBias, kMask, kScoreBias, kPastKey, kPastValue, kPastLength, kBeams };

// Part `part` of `parts`, which lie between heads and features: [b, l, heads, parts, d] as [b, heads, l, d].
NodeId Unpack(Builder& b, NodeId x, int64_t part) {
  NodeId one = b.Squeeze(b.Slice(x, 3, part, 1, 1), 3);
  return b.Transpose(one, {0, 2, 1, 3});
}

// Adds the bias from `at` on to heads [b, h, s, d].
Result<NodeId> AddBias(OpContext& c, NodeId x, int64_t at) {
  if (!c.Has(kBias)) return x;
  Builder& b = c.b;
  const Shape s = b.shape(x);
  if (c.rank(kBias) != 1 || at + s[1] * s[3] > c.shape(kBias)[0] || c.dtype(kBias) != b.dtype(x))
    return Status::Error(Code::kCorrupt, "a bias of shape %s", Text(c.shape(kBias)).c_str());
  NodeId part = b.Slice(c.In(kBias), 0, at, 1, s[1] * s[3]);
  return b.Add(x, b.Reshape(part, {1, s[1], 1, s[3]}));
}

// Reads queries, keys and values in any of their forms; `cached`: keys and values need no bias.
Status ReadPacked(OpContext& c, int64_t heads, MultiHead* h, bool* cached) {
  Builder& b = c.b;
  const auto packed = [&](int i, int64_t parts) {
    return c.rank(i) == 5 && c.shape(i)[2] == heads && c.shape(i)[3] == parts;
  };
  *cached = false;
  if (!c.Has(kKey)) {
    if (!packed(kQuery, 3))
      return Status::Error(Code::kCorrupt, "packed queries of shape %s", Text(c.shape(kQuery)).c_str());
    h->q = Unpack(b, c.In(kQuery), 0), h->k = Unpack(b, c.In(kQuery), 1), h->v = Unpack(b, c.In(kQuery), 2);
    return Status::Ok();
  }
  RONDO_RETURN_IF_ERROR(c.RequireSameType(kQuery, kKey));
  RONDO_ASSIGN_OR_RETURN(h->q, SplitHeads(c, c.In(kQuery), heads));
  if (!c.Has(kValue)) {
    if (!packed(kKey, 2))
      return Status::Error(Code::kCorrupt, "packed keys of shape %s", Text(c.shape(kKey)).c_str());
    h->k = Unpack(b, c.In(kKey), 0), h->v = Unpack(b, c.In(kKey), 1);
    return Status::Ok();
  }
  RONDO_RETURN_IF_ERROR(c.RequireSameType(kQuery, kValue));
  if (c.rank(kKey) == 4 && c.rank(kValue) == 4) {
    h->k = c.In(kKey), h->v = c.In(kValue);
    *cached = true;
    return Status::Ok();
  }
  RONDO_ASSIGN_OR_RETURN(h->k, SplitHeads(c, c.In(kKey), heads));
  RONDO_ASSIGN_OR_RETURN(h->v, SplitHeads(c, c.In(kValue), heads));
  return Status::Ok();
}

Status MultiHeadAttention(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kQuery));
  if (c.Has(kBeams))
    return Status::Error(Code::kUnsupported, "the input cache_indirection: export the model without beams");
  if (c.Has(kPastKey) != c.Has(kPastValue))
    return Status::Error(Code::kCorrupt, "past keys and values come together");
  MultiHead h;
  bool cached = false;
  RONDO_RETURN_IF_ERROR(ReadPacked(c, c.Int("num_heads", 0), &h, &cached));
  const int64_t width = b.shape(h.q)[1] * b.shape(h.q)[3];
  RONDO_ASSIGN_OR_RETURN(h.q, AddBias(c, h.q, 0));
  if (!cached) {
    RONDO_ASSIGN_OR_RETURN(h.k, AddBias(c, h.k, width));
    RONDO_ASSIGN_OR_RETURN(h.v, AddBias(c, h.v, 2 * width));
  }
  if (c.Has(kPastKey)) {
    RONDO_ASSIGN_OR_RETURN(h.held, ReadHeld(c, kPastLength, c.Has(kPastLength)));
    if (h.held == kNoNode) h.past = c.rank(kPastKey) == 4 ? c.SizeOf(kPastKey, 2) : 0;
    RONDO_ASSIGN_OR_RETURN(h.k, WithRows(c, c.In(kPastKey), h.k, h.held));
    RONDO_ASSIGN_OR_RETURN(h.v, WithRows(c, c.In(kPastValue), h.v, h.held));
  }
  h.mask_input = kMask, h.bias_input = kScoreBias;
  NodeId scores = kNoNode;
  RONDO_ASSIGN_OR_RETURN(NodeId y, AttendHeads(c, h, c.Wants(3) ? &scores : nullptr));
  c.Set(0, y);
  c.Set(1, h.k);
  c.Set(2, h.v);
  c.Set(3, scores);
  return Status::Ok();
}

// ---------------------------------------------------------------------------------------- Attention

enum AttentionInput { kInput, kWeights, kProjectionBias, kMaskIndex, kPast, kAddedBias, kPastSize };

Result<NodeId> Project(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(kInput, 3, 3));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kWeights, 2, 2));
  RONDO_RETURN_IF_ERROR(c.RequireSameType(kInput, kWeights));
  if (c.shape(kInput)[2] != c.shape(kWeights)[0] || c.shape(kInput).elements() == 0) {
    return Status::Error(Code::kCorrupt, "shapes %s and %s do not multiply", Text(c.shape(kInput)).c_str(),
                         Text(c.shape(kWeights)).c_str());
  }
  NodeId y = c.b.MatMul(c.In(kInput), c.In(kWeights));
  if (!c.Has(kProjectionBias)) return y;
  RONDO_RETURN_IF_ERROR(c.RequireSameType(kInput, kProjectionBias));
  if (!(c.shape(kProjectionBias) == Shape({c.shape(kWeights)[1]})))
    return Status::Error(Code::kCorrupt, "a bias of shape %s", Text(c.shape(kProjectionBias)).c_str());
  return c.b.Add(y, c.In(kProjectionBias));
}

// Rotates queries and keys as do_rotary asks. Of the first `rotary_embedding_dim` features (0: all), feature
// i is rotated with feature i + half, at position p by the angle p / 10000^(i / half). ONNX Runtime has this
// only for GPUs and one new position after past ones; here any number is allowed.
Status RotateQueriesAndKeys(OpContext& c, MultiHead* h) {
  if (c.Int("do_rotary", 0) == 0) return Status::Ok();
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(CheckMultiHead(c, *h));
  const int64_t rows = b.shape(h->q)[2], features = b.shape(h->q)[3];
  const int64_t asked = c.Int("rotary_embedding_dim", 0), turned = asked == 0 ? features : asked;
  if (turned < 2 || turned % 2 != 0 || turned > features) {
    return Status::Error(
        Code::kCorrupt,
        "do_rotary of %lld features (rotary_embedding_dim; 0 is all) of heads of %lld: an even "
        "number of those that a head has is needed",
        static_cast<long long>(asked), static_cast<long long>(features));
  }
  std::vector<double> slowness;
  for (int64_t i = 0; i < turned / 2; ++i)
    slowness.push_back(std::pow(10000.0, static_cast<double>(2 * i) / static_cast<double>(turned)));
  NodeId place = b.Iota({1, rows, 1}, 1);
  if (h->held != kNoNode) {
    place = b.Add(place, h->held);
  } else if (!(h->past == 0)) {
    place = b.Add(place, b.Number(h->past));
  }
  const NodeId angle = b.Div(b.Cast(place, DType::kF32), b.Floats(DType::kF32, {turned / 2}, slowness));
  const NodeId cosine = b.Unary(TapeOp::kCos, angle), sine = b.Unary(TapeOp::kSin, angle);
  for (NodeId* heads : {&h->q, &h->k}) {
    RONDO_ASSIGN_OR_RETURN(*heads, RotateHeads(c, *heads, cosine, sine, false));
  }
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"MultiHeadAttention", 1, MultiHeadAttention, 1, kLatest, "com.microsoft"},
    {"Attention", 2, ProjectAndAttend, 1, kLatest, "com.microsoft"},
};

}  // namespace

Status ProjectAndAttend(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kInput));
  RONDO_ASSIGN_OR_RETURN(NodeId projected, Project(c));
  return AttendProjected(c, projected, kMaskIndex, kPast, kAddedBias, kPastSize);
}

Status AttendProjected(OpContext& c, NodeId projected, int mask, int past, int bias, int held) {
  Builder& b = c.b;
  const int64_t heads = c.Int("num_heads", 0);
  const Shape s = b.shape(projected);
  std::vector<int64_t> widths = c.Ints("qkv_hidden_sizes");
  if (widths.empty()) widths.assign(3, s[2] / 3);
  if (widths.size() != 3 || widths[0] < 1 || widths[1] < 1 || widths[2] < 1 || widths[0] > s[2] ||
      widths[1] > s[2] || widths[0] + widths[1] + widths[2] != s[2]) {
    return Status::Error(Code::kCorrupt, "qkv_hidden_sizes do not fit %lld columns",
                         static_cast<long long>(s[2]));
  }
  MultiHead h;
  int64_t at = 0;
  NodeId* const parts[] = {&h.q, &h.k, &h.v};
  for (size_t i = 0; i < 3; at += widths[i], ++i) {
    RONDO_ASSIGN_OR_RETURN(*parts[i], SplitHeads(c, b.Slice(projected, 2, at, 1, widths[i]), heads));
  }
  if (c.Has(past)) {
    const Shape p = c.shape(past);
    if (p.rank != 5 || p[0] != 2) return Status::Error(Code::kCorrupt, "past of shape %s", Text(p).c_str());
    if (held >= 0) {
      RONDO_ASSIGN_OR_RETURN(h.held, ReadHeld(c, held, false));
    }
    if (h.held == kNoNode) h.past = c.SizeOf(past, 3);
  }
  RONDO_RETURN_IF_ERROR(RotateQueriesAndKeys(c, &h));
  if (c.Has(past)) {
    RONDO_ASSIGN_OR_RETURN(h.k, WithRows(c, b.Squeeze(b.Slice(c.In(past), 0, 0, 1, 1), 0), h.k, h.held));
    RONDO_ASSIGN_OR_RETURN(h.v, WithRows(c, b.Squeeze(b.Slice(c.In(past), 0, 1, 1, 1), 0), h.v, h.held));
  }
  h.mask_input = mask, h.bias_input = bias;
  RONDO_ASSIGN_OR_RETURN(NodeId y, AttendHeads(c, h));
  c.Set(0, y);
  if (c.Wants(1)) {
    if (!(b.shape(h.k) == b.shape(h.v)))
      return Status::Error(Code::kCorrupt, "the output present needs keys and values of one shape");
    c.Set(1, b.Concat({b.Unsqueeze(h.k, 0), b.Unsqueeze(h.v, 0)}, 0));
  }
  return Status::Ok();
}

Span<const OpRow> MultiHeadOps() { return kOps; }

}  // namespace rondo::importer
