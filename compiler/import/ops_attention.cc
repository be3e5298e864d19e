// Attention and rotary embedding.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "compiler/import/cached_attention.h"
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"
#include "compiler/import/rotary.h"
#include "core/element.h"

namespace rondo::importer {

Result<NodeId> SplitHeads(OpContext& c, NodeId x, int64_t heads) {
  const Shape s = c.b.shape(x);
  if (s.rank != 3 || heads < 1 || s[2] % heads != 0) {
    return Status::Error(Code::kCorrupt, "shape %s in %lld heads", Text(s).c_str(),
                         static_cast<long long>(heads));
  }
  const NodeId parts = c.b.ReshapeTo(x, {c.b.SizeOf(x, 0), c.b.SizeOf(x, 1), heads, s[2] / heads});
  return c.b.Transpose(parts, {0, 2, 1, 3});
}

NodeId JoinHeads(Builder& b, NodeId x) {
  const Shape s = b.shape(x);
  return b.Reshape(b.Transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

// Rows of a table of angles. If a condition chooses between two tables, it chooses between the rows of both.
static NodeId RowsAt(Builder& b, NodeId cache, NodeId position) {
  const ir::Node& node = b.graph().node(cache);
  const bool chosen = node.op == ir::Op::kPointwise && node.As<ir::PointwiseAttrs>().op == TapeOp::kSelect;
  if (!chosen || b.shape(b.graph().BaseOf(node.inputs[0])).elements() != 1)
    return b.Gather(cache, position, 0);
  const std::vector<NodeId> in = node.inputs;
  const NodeId condition = b.Reshape(b.graph().BaseOf(in[0]), Shape{});
  return b.Select(condition, b.Gather(in[1], position, 0), b.Gather(in[2], position, 0));
}

Result<Angles> AnglesAt(OpContext& c, int cosine, int sine, NodeId position) {
  Angles angles;
  for (const auto& [input, to] : {std::pair{cosine, &angles.cosine}, std::pair{sine, &angles.sine}}) {
    RONDO_RETURN_IF_ERROR(c.RequireRank(input, 2, 2));
    if (c.shape(input).elements() == 0) {
      return Status::Error(Code::kCorrupt, "input %d of shape %s holds no angles to rotate by", input,
                           Text(c.shape(input)).c_str());
    }
    *to = RowsAt(c.b, c.In(input), position);
  }
  return angles;
}

Result<NodeId> RotateHeads(OpContext& c, NodeId x, NodeId cosine, NodeId sine, bool interleaved) {
  Builder& b = c.b;
  const Shape s = b.shape(x), angles = b.shape(cosine);
  if (s.rank != 4 || angles.rank != 3 || !(angles == b.shape(sine)) ||
      (angles[0] != 1 && angles[0] != s[0]) || angles[1] != s[2] || 2 * angles[2] > s[3] ||
      b.dtype(cosine) != b.dtype(sine)) {
    return Status::Error(Code::kCorrupt, "angles of shape %s do not fit heads of shape %s",
                         Text(angles).c_str(), Text(s).c_str());
  }
  int64_t rotated = 2 * angles[2];
  NodeId head = b.Slice(x, 3, 0, 1, rotated);
  DType type = b.dtype(x);
  NodeId wide_cosine = b.Cast(b.Unsqueeze(Widen(b, cosine), 1), b.dtype(Widen(b, x)));
  NodeId wide_sine = b.Cast(b.Unsqueeze(Widen(b, sine), 1), b.dtype(Widen(b, x)));
  NodeId y = b.Cast(RotatePairs(b, Widen(b, head), wide_cosine, wide_sine, interleaved), type);
  return rotated == s[3] ? y : b.Concat({y, b.Slice(x, 3, rotated, 1, s[3] - rotated)}, 3);
}

namespace {

// Queries, keys and values as [b, heads, s, features].
struct Heads {
  NodeId q = kNoNode, k = kNoNode, v = kNoNode;
  bool joined = false;  // they were given as [b, s, heads * features]
};

Result<Heads> ReadHeads(OpContext& c) {
  Heads h{c.In(0), c.In(1), c.In(2), c.rank(0) == 3};
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 4));
  for (int i = 0; i < 3; ++i) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
    RONDO_RETURN_IF_ERROR(c.RequireRank(i, c.rank(0), c.rank(0)));
  }
  if (c.dtype(0) != DType::kF32 && !Is16BitFloat(c.dtype(0))) {
    return Status::Error(Code::kUnsupported, "attention of type %s", Name(c.dtype(0)));
  }
  if (h.joined) {
    int64_t heads = c.Int("q_num_heads", 0), kv_heads = c.Int("kv_num_heads", 0);
    RONDO_ASSIGN_OR_RETURN(h.q, SplitHeads(c, h.q, heads));
    RONDO_ASSIGN_OR_RETURN(h.k, SplitHeads(c, h.k, kv_heads));
    RONDO_ASSIGN_OR_RETURN(h.v, SplitHeads(c, h.v, kv_heads));
  }
  return h;
}

// Past keys or values (input `i`) followed by the new ones.
Result<NodeId> WithPast(OpContext& c, int i, NodeId now) {
  if (!c.Has(i)) return now;
  const Shape past = c.shape(i), s = c.b.shape(now);
  if (past.rank != 4 || !(WithDim(past, 2, 0) == WithDim(s, 2, 0)) || c.dtype(i) != c.b.dtype(now)) {
    return Status::Error(Code::kCorrupt, "past of shape %s before %s", Text(past).c_str(), Text(s).c_str());
  }
  if (past[2] == 0) return now;
  return c.b.Concat({c.In(i), now}, 2);
}

Status CheckHeads(OpContext& c, const Heads& h) {
  const Shape q = c.b.shape(h.q), k = c.b.shape(h.k), v = c.b.shape(h.v);
  if (q[0] != k[0] || k[0] != v[0] || k[1] != v[1] || k[1] == 0 || q[1] % k[1] != 0 || k[2] != v[2] ||
      q[3] != k[3] || q.elements() == 0 || k.elements() == 0 || v.elements() == 0) {
    return Status::Error(Code::kCorrupt, "queries %s, keys %s and values %s do not fit", Text(q).c_str(),
                         Text(k).c_str(), Text(v).c_str());
  }
  return Status::Ok();
}

// The mask broadcast to [b, h, s, t]. From opset 24 on it may be shorter than t; the rest is then masked.
Result<NodeId> ReadMask(OpContext& c, const Shape& scores) {
  NodeId mask = c.In(3);
  Shape shape = c.shape(3);
  if (c.dtype(3) != DType::kBool && c.dtype(3) != c.dtype(0)) {
    return Status::Error(Code::kCorrupt, "mask of type %s", Name(c.dtype(3)));
  }
  if (shape.rank >= 1 && shape[shape.rank - 1] < scores[3] && c.opset >= 24) {
    std::vector<int64_t> before(static_cast<size_t>(shape.rank), 0), after = before;
    after.back() = scores[3] - shape[shape.rank - 1];
    double absent = c.dtype(3) == DType::kBool ? 0 : -std::numeric_limits<double>::infinity();
    mask = c.b.PadConstant(mask, c.b.Scalar(c.dtype(3), absent), before, after);
  }
  RONDO_ASSIGN_OR_RETURN(Shape both, c.Broadcast(c.b.shape(mask), scores));
  if (!(both == scores)) {
    return Status::Error(Code::kCorrupt, "mask %s does not broadcast to %s", Text(shape).c_str(),
                         Text(scores).c_str());
  }
  return mask;
}

// The position of each query among the keys, [b or 1, 1, s]: after the past, or so that the last query is at
// the last key that is not padding.
Result<NodeId> ReadPositions(OpContext& c, const Shape& q, const ir::Size& past) {
  Builder& b = c.b;
  const NodeId row = b.Iota({1, 1, q[2]}, 2);
  if (!c.Has(6)) return b.Add(row, b.Number(past));
  if (c.Has(4)) return Status::Error(Code::kCorrupt, "both past keys and nonpad_kv_seqlen are given");
  if (c.rank(6) != 1 || c.shape(6)[0] != q[0] || c.dtype(6) != DType::kI64)
    return Status::Error(Code::kCorrupt, "nonpad_kv_seqlen of shape %s", Text(c.shape(6)).c_str());
  const NodeId first = b.BinaryScalar(TapeOp::kSub, AlongAxis(b, c.In(6), 0, 3), static_cast<double>(q[2]));
  return b.Add(first, row);
}

// The number of keys that a query sees backward or forward, from opset 25 on; -1: no limit.
Result<int64_t> WindowSide(const OpContext& c, const char* name) {
  constexpr int64_t kMost = int64_t{1} << 40;  // beyond all keys; sums with it do not overflow
  const int64_t size = c.Int(name, -1);
  if (size >= -1) return std::min(size, kMost);
  return Status::Error(Code::kCorrupt, "%s of %lld: -1, or a number of keys from 0 on", name,
                       static_cast<long long>(size));
}

// The keys that queries at `position` see: those below a limit [b or 1, 1, s or 1], and those that `mask`
// keeps. Either may be kNoNode.
struct Seen {
  NodeId limit = kNoNode, mask = kNoNode;
};

Result<Seen> ReadSeen(OpContext& c, NodeId position, NodeId mask, const ir::Size& keys) {
  Builder& b = c.b;
  Seen seen{c.Has(6) ? AlongAxis(b, c.In(6), 0, 3) : kNoNode, mask};
  RONDO_ASSIGN_OR_RETURN(const int64_t left, WindowSide(c, "left_window_size"));
  RONDO_ASSIGN_OR_RETURN(const int64_t right, WindowSide(c, "right_window_size"));
  if (const bool causal = c.Int("is_causal", 0) != 0; causal || right >= 0) {
    const NodeId end = b.BinaryScalar(TapeOp::kAdd, position, static_cast<double>(causal ? 1 : right + 1));
    // The last query is at the last key, so that a causal query sees no padding.
    seen.limit = seen.limit == kNoNode || causal ? end : b.Binary(TapeOp::kMin, seen.limit, end);
  }
  if (left < 0) return seen;
  const NodeId first = b.BinaryScalar(TapeOp::kSub, b.Unsqueeze(position, 3), static_cast<double>(left));
  const NodeId near = b.Binary(TapeOp::kLessEqual, first, b.IotaOver({keys}, 0));
  const DType type = mask == kNoNode ? DType::kBool : b.dtype(mask);
  seen.mask = mask == kNoNode ? near
              : type == DType::kBool
                  ? b.Select(near, mask, b.Scalar(type, 0))
                  : b.Select(near, mask, b.Scalar(type, -std::numeric_limits<double>::infinity()));
  return seen;
}

Status Attention(OpContext& c) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(Heads h, ReadHeads(c));
  if (c.Has(4) != c.Has(5)) return Status::Error(Code::kCorrupt, "past keys and values come together");
  if (c.Has(4) && c.rank(4) != 4) return Status::Error(Code::kCorrupt, "past keys must have 4 dimensions");
  RONDO_ASSIGN_OR_RETURN(h.k, WithPast(c, 4, h.k));
  RONDO_ASSIGN_OR_RETURN(h.v, WithPast(c, 5, h.v));
  RONDO_RETURN_IF_ERROR(CheckHeads(c, h));
  const Shape q = b.shape(h.q), k = b.shape(h.k);
  NodeId mask = kNoNode;
  if (c.Has(3)) {
    RONDO_ASSIGN_OR_RETURN(mask, ReadMask(c, {q[0], q[1], q[2], k[2]}));
  }
  const ir::Size past = c.Has(4) ? c.SizeOf(4, 2) : 0;
  RONDO_ASSIGN_OR_RETURN(const NodeId position, ReadPositions(c, q, past));
  RONDO_ASSIGN_OR_RETURN(const Seen seen, ReadSeen(c, position, mask, b.SizeOf(h.k, 2)));
  ir::AttentionAttrs attrs;
  attrs.scale = c.Float("scale", 1.0f / std::sqrt(static_cast<float>(q[3])));
  attrs.softcap = c.Float("softcap", 0);
  // A query that sees no key gives 0.
  attrs.nan_to_zero = seen.mask != kNoNode || seen.limit != kNoNode;
  NodeId y = b.Attention(h.q, h.k, h.v, seen.mask, seen.limit, attrs);
  c.Set(0, h.joined ? JoinHeads(b, y) : y);
  c.Set(1, h.k);
  c.Set(2, h.v);
  if (!c.Wants(3)) return Status::Ok();
  AttentionRequest request{.limit = seen.limit, .attrs = attrs};
  if (seen.mask != kNoNode) (b.dtype(seen.mask) == DType::kBool ? request.keep : request.bias) = seen.mask;
  const int64_t stage = c.Int("qk_matmul_output_mode", 0);
  if (stage < 0 || stage > static_cast<int64_t>(ScoreStage::kWeights))
    return Status::Error(Code::kCorrupt, "qk_matmul_output_mode of %lld; 0 to 3 are known",
                         static_cast<long long>(stage));
  c.Set(3, Scores(b, h.q, h.k, request, static_cast<ScoreStage>(stage)));
  return Status::Ok();
}

// x, cosines, sines, [positions]. The tables are [positions, half], or [b, s, half] without positions.
Status RotaryEmbedding(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 4));
  NodeId x = c.In(0), cosine = c.In(1), sine = c.In(2);
  bool joined = c.rank(0) == 3;
  if (joined) {
    RONDO_ASSIGN_OR_RETURN(x, SplitHeads(c, x, c.Int("num_heads", 0)));
  }
  if (c.Has(3)) {
    RONDO_RETURN_IF_ERROR(c.RequireInteger(3));
    RONDO_RETURN_IF_ERROR(c.RequireRank(3, 2, 2));
    RONDO_ASSIGN_OR_RETURN(const Angles angles, AnglesAt(c, 1, 2, c.In(3)));
    cosine = angles.cosine, sine = angles.sine;
  }
  int64_t rotated = c.Int("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = c.b.shape(x)[3];
  if (c.b.shape(cosine).rank != 3 || 2 * c.b.shape(cosine)[2] != rotated) {
    return Status::Error(Code::kCorrupt, "a cache of shape %s for %lld rotated features",
                         Text(c.shape(1)).c_str(), static_cast<long long>(rotated));
  }
  RONDO_ASSIGN_OR_RETURN(NodeId y, RotateHeads(c, x, cosine, sine, c.Int("interleaved", 0) != 0));
  return c.Give(joined ? JoinHeads(c.b, y) : y);
}

constexpr OpRow kOps[] = {
    {"Attention", 3, Attention},
    {"RotaryEmbedding", 3, RotaryEmbedding},
};

}  // namespace

Span<const OpRow> AttentionOps() { return kOps; }

}  // namespace rondo::importer
