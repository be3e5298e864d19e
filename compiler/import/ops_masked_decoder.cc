// DecoderMaskedMultiHeadAttention and DecoderMaskedSelfAttention of com.microsoft: one query per text, after
// the positions of its cache. ONNX Runtime's tools for Whisper and T5 replace MultiHeadAttention by them in
// decode steps.
#include <cmath>

#include "compiler/import/cached_attention.h"
#include "compiler/import/decompose.h"
#include "compiler/import/multi_head.h"
#include "compiler/import/registry.h"
#include "compiler/import/rotary.h"

namespace rondo::importer {
namespace {

enum Input {
  kQuery,
  kKey,
  kValue,
  kMask,
  kScoreBias,
  kPastKey,
  kPastValue,
  kPastLength,
  kBeamWidth,
  kBeams,
  kBias
};

// `count` columns of x [b, 1, columns] from `from` on, plus the bias from `at` on if there is one, as heads
// [b, h, 1, count / h].
Result<NodeId> SomeHeads(OpContext& c, NodeId x, int64_t from, int64_t at, int64_t count) {
  Builder& b = c.b;
  NodeId some = b.Slice(x, 2, from, 1, count);
  if (c.Has(kBias)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(kQuery, kBias));
    if (c.rank(kBias) != 1 || at + count > c.shape(kBias)[0])
      return Status::Error(Code::kCorrupt, "a bias of shape %s", Text(c.shape(kBias)).c_str());
    some = b.Add(some, b.Slice(c.In(kBias), 0, at, 1, count));
  }
  return SplitHeads(c, some, c.Int("num_heads", 0));
}

// Reads this run's queries, keys and values, side by side in input 0 or in separate inputs.
Status ReadRows(OpContext& c, MultiHead* h) {
  const int64_t heads = c.Int("num_heads", 0);
  const Shape q = c.shape(kQuery);
  const bool packed = !c.Has(kKey);
  int64_t widths[3] = {q[2], 0, 0};
  if (packed) {
    const int64_t of_keys = c.rank(kPastKey) == 4 ? c.shape(kPastKey)[3] * heads : 0;
    widths[0] = widths[1] = of_keys, widths[2] = q[2] - 2 * of_keys;
  } else {
    for (int i : {kKey, kValue}) {
      RONDO_RETURN_IF_ERROR(c.RequireSameType(kQuery, i));
      RONDO_RETURN_IF_ERROR(c.RequireRank(i, 3, 3));
      widths[i] = c.shape(i)[2];
    }
  }
  if (widths[0] < 1 || widths[1] < 1 || widths[2] < 1)
    return Status::Error(Code::kCorrupt, "queries of shape %s in %lld heads", Text(q).c_str(),
                         static_cast<long long>(heads));
  NodeId* const parts[] = {&h->q, &h->k, &h->v};
  for (int64_t i = 0, at = 0; i < 3; at += widths[i], ++i) {
    const NodeId from = packed ? c.In(kQuery) : c.In(static_cast<int>(i));
    RONDO_ASSIGN_OR_RETURN(*parts[i], SomeHeads(c, from, packed ? at : 0, at, widths[i]));
  }
  return Status::Ok();
}

Result<NodeId> ReadBias(OpContext& c, const Shape& scores) {
  Builder& b = c.b;
  NodeId bias = kNoNode;
  if (c.Has(kMask)) {
    RONDO_RETURN_IF_ERROR(c.RequireInteger(kMask));
    if (c.rank(kMask) != 2 || c.shape(kMask)[0] != scores[0])
      return Status::Error(Code::kUnsupported,
                           "a mask of shape %s: rondo knows [b, keys]; export the model with it",
                           Text(c.shape(kMask)).c_str());
    RONDO_ASSIGN_OR_RETURN(const NodeId mask, AsLong(c, kMask, scores[3]));
    const NodeId dropped = b.Binary(TapeOp::kEqual, mask, b.Scalar(b.dtype(mask), 0));
    const double filter = c.Float("mask_filter_value", -10000.0f);
    bias = b.Select(dropped, b.Scalar(DType::kF32, filter), b.Scalar(DType::kF32, 0));
    bias = b.Reshape(bias, {scores[0], 1, 1, scores[3]});
  }
  if (c.Has(kScoreBias)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(kQuery, kScoreBias));
    RONDO_RETURN_IF_ERROR(c.RequireRank(kScoreBias, 4, 4));
    RONDO_ASSIGN_OR_RETURN(NodeId added, AsLong(c, kScoreBias, scores[3]));
    RONDO_ASSIGN_OR_RETURN(const Shape both, c.Broadcast(b.shape(added), scores));
    if (!(both == scores))
      return Status::Error(Code::kCorrupt, "attention_bias of shape %s", Text(c.shape(kScoreBias)).c_str());
    added = b.Cast(added, DType::kF32);
    bias = bias == kNoNode ? added : b.Add(bias, added);
  }
  return bias == kNoNode ? bias : b.Cast(bias, c.dtype(kQuery));
}

Status DecoderMaskedMultiHeadAttention(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(kQuery));
  RONDO_RETURN_IF_ERROR(c.RequireRank(kQuery, 3, 3));
  if (c.shape(kQuery)[1] != 1)
    return Status::Error(Code::kCorrupt, "queries of shape %s; one a text is needed",
                         Text(c.shape(kQuery)).c_str());
  if (c.Has(kBeams))
    return Status::Error(Code::kUnsupported, "the input cache_indirection: export the model without beams");
  if (c.Has(kKey) != c.Has(kValue)) return Status::Error(Code::kCorrupt, "keys and values come together");
  const bool cross = c.Has(kKey) && c.rank(kKey) == 4;
  MultiHead h;
  AttentionRequest request;
  if (cross) {
    RONDO_ASSIGN_OR_RETURN(h.q, SomeHeads(c, c.In(kQuery), 0, 0, c.shape(kQuery)[2]));
    h.k = c.In(kKey), h.v = c.In(kValue);
    if (c.rank(kValue) != 4)
      return Status::Error(Code::kCorrupt, "values of shape %s", Text(c.shape(kValue)).c_str());
  } else {
    if (!c.Has(kPastKey) || !c.Has(kPastValue))
      return Status::Error(Code::kCorrupt, "past keys and values are missing");
    RONDO_RETURN_IF_ERROR(ReadRows(c, &h));
    RONDO_ASSIGN_OR_RETURN(const NodeId held, ReadHeld(c, kPastLength, false));
    if (held != kNoNode) request.limit = b.BinaryScalar(TapeOp::kAdd, b.Reshape(held, {1, 1, 1}), 1);
    RONDO_ASSIGN_OR_RETURN(h.k, WithRows(c, c.In(kPastKey), h.k, held));
    RONDO_ASSIGN_OR_RETURN(h.v, WithRows(c, c.In(kPastValue), h.v, held));
  }
  RONDO_RETURN_IF_ERROR(CheckMultiHead(c, h));
  const Shape q = b.shape(h.q);
  request.attrs.scale = c.Float("scale", 0);
  if (request.attrs.scale == 0) request.attrs.scale = 1.0f / std::sqrt(static_cast<float>(q[3]));
  RONDO_ASSIGN_OR_RETURN(request.bias, ReadBias(c, {q[0], q[1], q[2], b.shape(h.k)[2]}));
  c.Set(0, JoinHeads(b, Attend(b, h.q, h.k, h.v, request)));
  if (c.Wants(3)) c.Set(3, Scores(b, h.q, h.k, request, ScoreStage::kMasked));
  if (cross) return Status::Ok();
  c.Set(1, h.k);
  c.Set(2, h.v);
  return Status::Ok();
}

// Attention that always has past and present, with one query per text.
Status DecoderMaskedSelfAttention(OpContext& c) {
  constexpr int kPast = 4, kBeamsOfSelf = 8;
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 3));
  if (c.Has(kBeamsOfSelf))
    return Status::Error(Code::kUnsupported, "the input cache_indirection: export the model without beams");
  if (c.shape(0)[1] != 1 || !c.Has(kPast))
    return Status::Error(Code::kCorrupt, "an input of shape %s%s; one row a text, and a past, are needed",
                         Text(c.shape(0)).c_str(), c.Has(kPast) ? "" : " and no past");
  return ProjectAndAttend(c);
}

constexpr OpRow kOps[] = {
    {"DecoderMaskedSelfAttention", 2, DecoderMaskedSelfAttention, 1, kLatest, "com.microsoft"},
    {"DecoderMaskedMultiHeadAttention", 1, DecoderMaskedMultiHeadAttention, 1, kLatest, "com.microsoft"},
};

}  // namespace

Span<const OpRow> MaskedDecoderOps() { return kOps; }

}  // namespace rondo::importer
