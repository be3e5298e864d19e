// GroupQueryAttention of com.microsoft, which ONNX Runtime's model builder uses for a decoder's attention.
//
// The cache is one tensor with a fixed number of positions. New rows are written into it, so a state changes
// in place. The number of positions in each batch entry is data (seqlens_k). total_sequence_length only sets
// the length of `present` if it is longer than `past`.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/import/cached_attention.h"
#include "compiler/import/decompose.h"
#include "compiler/import/grouped_attention.h"
#include "compiler/import/packed_bits.h"
#include "compiler/import/registry.h"
#include "compiler/import/rotary.h"

namespace rondo::importer {
namespace {

enum Input {
  kQuery,
  kKey,
  kValue,
  kPastKey,
  kPastValue,
  kLengths,
  kTotal,
  kCosine,
  kSine,
  kPositions,
  kBias,
  kSink,
  kKeyScale,
  kValueScale,
  kQueryNorm,
  kKeyNorm,
  kQueryLengths
};

// One node being imported. Shapes: q [b, heads, s, d], k and v [b, groups, s, d].
struct Grouped {
  int64_t batch = 0, rows = 0, heads = 0, groups = 0, features = 0;
  int64_t past = 0;       // positions of the incoming cache
  int64_t positions = 0;  // positions of the outgoing cache
  int64_t grows_by = 0;   // with --cache-length: positions that a run adds
  int64_t present = 0;    // total_sequence_length if the model fixes it; otherwise 0
  NodeId q = kNoNode, k = kNoNode, v = kNoNode;
  NodeId total = kNoNode;  // i64 [b]: positions that are filled after this run
  NodeId start = kNoNode;  // i64 [b]: where this run's rows begin
};

Status Refuse(const char* what, const char* instead) {
  return Status::Error(Code::kUnsupported, "%s: %s", what, instead);
}

Status CheckOptions(OpContext& c) {
  // The model could use a cache as long as its window, with rows that move up. Here the cache has all
  // positions and the window is a mask. A run that exceeds a shorter cache fails.
  if (c.Int("sliding_window_cache", 0) != 0 && c.Int("local_window_size", -1) <= 0)
    return Refuse("sliding_window_cache", "it needs a local_window_size");
  if (const int64_t stage = c.Int("qk_output", 0); stage < 0 || stage > 2 || (stage == 0 && c.Wants(3)))
    return Status::Error(Code::kCorrupt,
                         "qk_output of %lld with%s the output output_qk; 1 is the scores, 2 their softmax",
                         static_cast<long long>(stage), c.Wants(3) ? "" : "out");
  if (c.Int("causal", 1) == 0 && c.Int("local_window_size", -1) != -1)
    return Status::Error(Code::kCorrupt, "a local window needs causal attention");
  if (c.Has(kPastKey) != c.Has(kPastValue))
    return Status::Error(Code::kCorrupt, "past keys and values come together");
  if (c.Has(kKey) != c.Has(kValue)) return Status::Error(Code::kCorrupt, "keys and values come together");
  if (c.Has(kQueryNorm) != c.Has(kKeyNorm))
    return Status::Error(Code::kCorrupt, "norms of queries and keys come together");
  if (!c.Has(kLengths)) return Status::Error(Code::kCorrupt, "input %d (seqlens_k) is missing", kLengths);
  return Status::Ok();
}

// Heads from number `first` on, `count` of them, which lie side by side in the last dim: [b, count, s, d].
NodeId SomeHeads(Builder& b, NodeId x, const Grouped& g, int64_t first, int64_t count) {
  NodeId some = b.Slice(x, 2, first * g.features, 1, count * g.features);
  return b.Transpose(b.Reshape(some, {g.batch, g.rows, count, g.features}), {0, 2, 1, 3});
}

Status ReadHeads(OpContext& c, Grouped* g) {
  g->heads = c.Int("num_heads", 0);
  g->groups = c.Int("kv_num_heads", 0);
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kQuery));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kQuery, 3, 3));
  const Shape q = c.shape(kQuery);
  const bool packed = !c.Has(kKey);
  if (g->heads < 1 || g->groups < 1 || g->heads > (1 << 20) || g->heads % g->groups != 0 ||
      q.elements() == 0) {
    return Status::Error(Code::kCorrupt, "queries of shape %s in %lld heads over %lld", Text(q).c_str(),
                         static_cast<long long>(g->heads), static_cast<long long>(g->groups));
  }
  const int64_t columns = packed ? g->heads + 2 * g->groups : g->heads;
  if (q[2] % columns != 0) {
    return Status::Error(Code::kCorrupt, "queries of shape %s in %lld heads", Text(q).c_str(),
                         static_cast<long long>(columns));
  }
  g->batch = q[0], g->rows = q[1], g->features = q[2] / columns;
  Builder& b = c.b;
  g->q = SomeHeads(b, c.In(kQuery), *g, 0, g->heads);
  if (packed) {
    g->k = SomeHeads(b, c.In(kQuery), *g, g->heads, g->groups);
    g->v = SomeHeads(b, c.In(kQuery), *g, g->heads + g->groups, g->groups);
    return Status::Ok();
  }
  for (int i : {kKey, kValue}) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(kQuery, i));
    if (!(c.shape(i) == Shape({g->batch, g->rows, g->groups * g->features}))) {
      return Status::Error(Code::kUnsupported, "input %d of shape %s; [%lld, %lld, %lld] is needed", i,
                           Text(c.shape(i)).c_str(), static_cast<long long>(g->batch),
                           static_cast<long long>(g->rows), static_cast<long long>(g->groups * g->features));
    }
  }
  g->k = SomeHeads(b, c.In(kKey), *g, 0, g->groups);
  g->v = SomeHeads(b, c.In(kValue), *g, 0, g->groups);
  return Status::Ok();
}

// A vector with one i32 per batch entry, as i64.
Result<NodeId> PerEntry(OpContext& c, int i, const Grouped& g) {
  RONDO_RETURN_IF_ERROR(c.RequireInteger(i));
  if (c.shape(i).elements() != g.batch) {
    return Status::Error(Code::kCorrupt, "input %d of shape %s; one number a batch entry is needed", i,
                         Text(c.shape(i)).c_str());
  }
  return c.b.Reshape(c.b.Cast(c.In(i), DType::kI64), {g.batch});
}

// Reads the lengths before and after this run, and those of the caches.
Status ReadLengths(OpContext& c, Grouped* g) {
  Builder& b = c.b;
  RONDO_ASSIGN_OR_RETURN(NodeId last, PerEntry(c, kLengths, *g));
  g->total = b.BinaryScalar(TapeOp::kAdd, last, 1);
  NodeId now = b.BinaryScalar(TapeOp::kMin, g->total, static_cast<double>(g->rows));
  if (c.Has(kQueryLengths)) {
    RONDO_ASSIGN_OR_RETURN(now, PerEntry(c, kQueryLengths, *g));
  }
  g->past = c.Has(kPastKey) && c.rank(kPastKey) == 4 ? c.shape(kPastKey)[2] : 0;
  g->positions = std::max(g->past, g->past == 0 ? g->rows : 0);
  if (auto total = c.ConstantInts(kTotal); total.ok() && total->size() == 1) {
    g->present = std::max<int64_t>((*total)[0], 0);
    g->positions = std::max(g->positions, g->present);
  }
  if (g->past > 0) g->grows_by = c.host.RowsAdded(c.In(kPastKey));
  if (g->grows_by > 0) {
    if (g->rows != g->grows_by)
      return Status::Error(Code::kUnsupported,
                           "it adds %lld positions to a cache, and a run adds %lld: give --shape for the "
                           "tokens, or export the model so that all its tokens are cached",
                           static_cast<long long>(g->rows), static_cast<long long>(g->grows_by));
    g->positions = g->past + g->grows_by;
  }
  if (g->positions < g->rows || g->positions > (int64_t{1} << 32)) {
    return Status::Error(
        Code::kCorrupt,
        "%lld new positions in a cache of %lld: give it more (--cache-length) or a run fewer (--shape)",
        static_cast<long long>(g->rows), static_cast<long long>(g->positions));
  }
  g->start = g->past == 0 ? b.Expand(b.Scalar(DType::kI64, 0), {g->batch}) : b.Sub(g->total, now);
  return Status::Ok();
}

// RMS norm of each head.
Result<NodeId> NormaliseHeads(OpContext& c, NodeId x, int weight, const char* own_epsilon) {
  if (!c.Has(weight)) return x;
  Builder& b = c.b;
  const double epsilon = c.Float(own_epsilon, c.Float("qk_norm_epsilon", 1e-6f));
  if (!(c.shape(weight) == Shape({b.shape(x)[3]})) || !(epsilon > 0)) {
    return Status::Error(Code::kCorrupt, "a norm of shape %s over heads of %lld features",
                         Text(c.shape(weight)).c_str(), static_cast<long long>(b.shape(x)[3]));
  }
  NodeId y = RmsNormalise(b, Widen(b, x), {3}, epsilon);
  return b.Cast(b.Mul(y, b.Cast(c.In(weight), b.dtype(y))), b.dtype(x));
}

Status Rotate(OpContext& c, Grouped* g) {
  if (c.Int("do_rotary", 0) == 0) return Status::Ok();
  if (!c.Has(kCosine) || !c.Has(kSine))
    return Status::Error(Code::kCorrupt, "do_rotary needs the inputs cos_cache and sin_cache");
  Builder& b = c.b;
  NodeId position = b.Add(b.Unsqueeze(g->start, 1), b.Iota({1, g->rows}, 1));
  if (c.Has(kPositions)) {
    if (!(c.shape(kPositions) == Shape({g->batch, g->rows})))
      return Status::Error(Code::kCorrupt, "position_ids of shape %s", Text(c.shape(kPositions)).c_str());
    position = c.In(kPositions);
  }
  RONDO_ASSIGN_OR_RETURN(const Angles angles, AnglesAt(c, kCosine, kSine, position));
  const bool interleaved = c.Int("rotary_interleaved", 0) != 0;
  RONDO_ASSIGN_OR_RETURN(g->q, RotateHeads(c, g->q, angles.cosine, angles.sine, interleaved));
  RONDO_ASSIGN_OR_RETURN(g->k, RotateHeads(c, g->k, angles.cosine, angles.sine, interleaved));
  return Status::Ok();
}

// ------------------------------------------------------------------------------------------ cache

// The encoding of rows in a cache: unchanged, or as integers with a scale (one, or one per head and feature).
struct Storage {
  DType dtype = DType::kF32;
  NodeId scale = kNoNode;
  int64_t bits = 0;  // 8 or 4; 0: unchanged
};

Result<Storage> ReadStorage(OpContext& c, const char* kind, int past, int scale, const Grouped& g) {
  Storage storage{c.dtype(kQuery), kNoNode, 0};
  const std::string type = c.String(kind, "NONE");
  const bool held = c.Has(past) && c.dtype(past) != c.dtype(kQuery);
  if (type == "NONE" && !held) return storage;
  storage.bits = c.Int("kv_cache_bit_width", 8);
  storage.dtype = storage.bits == 4 ? DType::kU8 : DType::kI8;
  if (!c.Has(scale) || (storage.bits != 8 && storage.bits != 4) || !c.Has(past) ||
      c.dtype(past) != storage.dtype || (storage.bits == 4 && g.features % 2 != 0) ||
      (type != "PER_TENSOR" && type != "PER_CHANNEL")) {
    return Status::Error(
        Code::kUnsupported,
        "a cache of type %s, %s \"%.30s\" and %lld bits: rondo knows i8 of 8 bits and u8 of 4, "
        "PER_TENSOR or PER_CHANNEL, with a scale and a past; or export the model without",
        c.Has(past) ? Name(c.dtype(past)) : "none", kind, type.c_str(), static_cast<long long>(storage.bits));
  }
  const int64_t count = c.shape(scale).elements();
  if (count != (type == "PER_TENSOR" ? 1 : g.groups * g.features))
    return Status::Error(Code::kCorrupt, "input %d of shape %s", scale, Text(c.shape(scale)).c_str());
  storage.scale = c.b.Cast(c.In(scale), DType::kF32);
  const Shape as = count == 1 ? Shape({1, 1, 1, 1}) : Shape({1, g.groups, 1, g.features});
  storage.scale = c.b.Reshape(storage.scale, as);
  return storage;
}

NodeId Stored(Builder& b, const Storage& storage, NodeId x) {
  if (storage.bits == 0) return x;
  const double high = storage.bits == 8 ? 127 : 7;
  NodeId whole = b.Unary(TapeOp::kRound, b.Div(b.Cast(x, DType::kF32), storage.scale));
  whole = Clamp(b, whole, -high - 1, high);
  if (storage.bits == 8) return b.Cast(whole, DType::kI8);
  return PackBits(b, b.BinaryScalar(TapeOp::kAdd, whole, 8), 4);
}

NodeId Restored(Builder& b, const Storage& storage, NodeId x, DType dtype) {
  if (storage.bits == 0) return x;
  NodeId whole = storage.bits == 8
                     ? b.Cast(x, DType::kF32)
                     : b.BinaryScalar(TapeOp::kSub, b.Cast(UnpackBits(b, x, 4), DType::kF32), 8);
  return b.Cast(b.Mul(whole, storage.scale), dtype);
}

// The cache with this run's rows [b, groups, s, d] written into it.
Result<NodeId> Present(OpContext& c, int past, NodeId rows, const Grouped& g) {
  Builder& b = c.b;
  const Shape row = b.shape(rows);
  if (g.past == 0 && g.positions == g.rows) return rows;
  NodeId cache = b.Expand(b.Scalar(b.dtype(rows), 0), WithDim(row, 2, g.positions));
  if (g.past > 0) {
    if (c.dtype(past) != b.dtype(rows) || c.rank(past) != 4 ||
        !(WithDim(c.shape(past), 2, 0) == WithDim(row, 2, 0)) || c.shape(past)[2] != g.past) {
      return Status::Error(Code::kCorrupt, "a cache of %s%s for rows of %s%s", Name(c.dtype(past)),
                           Text(c.shape(past)).c_str(), Name(b.dtype(rows)), Text(row).c_str());
    }
    if (g.grows_by > 0) {  // appends room for the new rows, which FixCaches recognises
      const Shape room = WithDim(row, 2, g.grows_by);
      cache = b.Concat({c.In(past), b.Expand(b.Scalar(b.dtype(rows), 0), room)}, 2);
    } else {
      cache = b.PadConstant(c.In(past), b.Scalar(b.dtype(rows), 0), {0, 0, 0, 0},
                            {0, 0, g.positions - g.past, 0});
    }
  }
  NodeId place = b.Add(b.Reshape(g.start, {g.batch, 1, 1, 1}), b.Iota({g.rows, 1}, 0));
  return WriteRows(b, cache, rows, place, 2);
}

// -------------------------------------------------------------------------------------- attention

// A bias [1 or b, 1 or heads, s, n] padded to the cache's length; the padding is beyond every limit.
Result<NodeId> Bias(OpContext& c, const Grouped& g) {
  if (!c.Has(kBias)) return kNoNode;
  RONDO_RETURN_IF_ERROR(c.RequireSameType(kQuery, kBias));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kBias, 4, 4));
  Builder& b = c.b;
  const Shape s = c.shape(kBias);
  if ((s[0] != 1 && s[0] != g.batch) || (s[1] != 1 && s[1] != g.heads) || s[2] != g.rows || s[3] < 1) {
    return Status::Error(Code::kCorrupt, "attention_bias of shape %s", Text(s).c_str());
  }
  if (s[3] > g.positions) return b.Slice(c.In(kBias), 3, 0, 1, g.positions);
  return b.PadConstant(c.In(kBias), b.Scalar(c.dtype(kBias), 0), {0, 0, 0, 0}, {0, 0, 0, g.positions - s[3]});
}

Result<AttentionRequest> ReadRequest(OpContext& c, const Grouped& g, const ir::Size& keys) {
  Builder& b = c.b;
  AttentionRequest request;
  request.attrs.scale = c.Float("scale", 0);
  if (request.attrs.scale == 0) request.attrs.scale = 1.0f / std::sqrt(static_cast<float>(g.features));
  request.attrs.softcap = c.Float("softcap", 0);
  request.attrs.limit_is_cached = true;
  RONDO_ASSIGN_OR_RETURN(request.bias, Bias(c, g));
  NodeId seen = b.Reshape(g.total, {g.batch, 1, 1});
  if (c.Int("causal", 1) != 0) {
    seen = b.Add(b.Reshape(g.start, {g.batch, 1, 1}), b.Iota({1, 1, g.rows}, 2));
    seen = b.BinaryScalar(TapeOp::kAdd, seen, 1);
  }
  request.limit = seen;
  if (const int64_t window = c.Int("local_window_size", -1); window > 0) {
    NodeId first = b.BinaryScalar(TapeOp::kSub, b.Unsqueeze(seen, 3), static_cast<double>(window));
    request.keep = b.Binary(TapeOp::kLessEqual, first, b.IotaOver({keys}, 0));
  }
  if (c.Has(kSink)) {
    if (!(c.shape(kSink) == Shape({g.heads})))
      return Status::Error(Code::kCorrupt, "head_sink of shape %s", Text(c.shape(kSink)).c_str());
    request.sink = b.Cast(b.Reshape(c.In(kSink), {1, g.heads, 1}), DType::kF32);
  } else if (c.Int("smooth_softmax", 0) == 1) {
    request.sink = b.Scalar(DType::kF32, 0);
  }
  return request;
}

// Outputs the scores of the present positions, or of the whole cache if their number is known only at run
// time. Scores that a query does not see, and those beyond the present positions, are 0.
void ShowScores(OpContext& c, const Grouped& g, NodeId keys, const AttentionRequest& request) {
  Builder& b = c.b;
  const bool weights = c.Int("qk_output", 0) == 2;
  NodeId x = Scores(b, g.q, keys, request, weights ? ScoreStage::kWeights : ScoreStage::kMasked);
  const NodeId dropped = b.Scalar(b.dtype(x), -std::numeric_limits<double>::infinity());
  x = b.Select(b.Binary(TapeOp::kEqual, x, dropped), b.Scalar(b.dtype(x), 0), x);
  const bool known = g.present > 0 && g.grows_by == 0;
  if (known) {
    x = b.Slice(x, 3, 0, 1, g.present);
  } else if (g.past > 0 && g.grows_by == 0) {  // otherwise --cache-length says it
    c.host.Remark("output_qk of GroupQueryAttention has " + std::to_string(g.positions) +
                  " columns, one for each position of the cache; those behind the present positions are 0");
  }
  c.Set(3, x);
}

}  // namespace

Status GroupedAttention(OpContext& c, const KeptKeys& kept) {
  Builder& b = c.b;
  Grouped g;
  RONDO_RETURN_IF_ERROR(CheckOptions(c));
  RONDO_RETURN_IF_ERROR(ReadHeads(c, &g));
  RONDO_RETURN_IF_ERROR(ReadLengths(c, &g));
  RONDO_ASSIGN_OR_RETURN(g.q, NormaliseHeads(c, g.q, kQueryNorm, "q_norm_epsilon"));
  RONDO_ASSIGN_OR_RETURN(g.k, NormaliseHeads(c, g.k, kKeyNorm, "k_norm_epsilon"));
  RONDO_RETURN_IF_ERROR(Rotate(c, &g));
  RONDO_ASSIGN_OR_RETURN(Storage keys, ReadStorage(c, "k_quant_type", kPastKey, kKeyScale, g));
  RONDO_ASSIGN_OR_RETURN(Storage values, ReadStorage(c, "v_quant_type", kPastValue, kValueScale, g));
  RONDO_ASSIGN_OR_RETURN(NodeId k, Present(c, kPastKey, Stored(b, keys, g.k), g));
  RONDO_ASSIGN_OR_RETURN(NodeId v, Present(c, kPastValue, Stored(b, values, g.v), g));
  RONDO_ASSIGN_OR_RETURN(AttentionRequest request, ReadRequest(c, g, b.SizeOf(k, 2)));
  if (kept) {
    const NodeId place = b.Add(b.Unsqueeze(g.start, 1), b.Iota({1, g.rows}, 1));
    RONDO_ASSIGN_OR_RETURN(const NodeId keep, kept({g.heads, g.rows, b.SizeOf(k, 2), place}));
    if (keep != kNoNode)
      request.keep = request.keep == kNoNode ? keep : b.Binary(TapeOp::kBitAnd, request.keep, keep);
  }
  const DType dtype = c.dtype(kQuery);
  const NodeId restored = Restored(b, keys, k, dtype);
  NodeId y = Attend(b, g.q, restored, Restored(b, values, v, dtype), request);
  if (c.Wants(3)) ShowScores(c, g, restored, request);
  c.Set(0, JoinHeads(b, y));
  c.Set(1, k);
  c.Set(2, v);
  return Status::Ok();
}

namespace {

Status GroupQueryAttention(OpContext& c) { return GroupedAttention(c, {}); }

constexpr OpRow kOps[] = {
    {"GroupQueryAttention", 1, GroupQueryAttention, 1, kLatest, "com.microsoft"},
};

}  // namespace

Span<const OpRow> GroupedAttentionOps() { return kOps; }

}  // namespace rondo::importer
