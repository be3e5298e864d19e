// EmbedLayerNormalization and QEmbedLayerNormalization: rows of three tables are added and normalised.
#include "compiler/import/decompose.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// ids [b, s], segments, tables of words, positions and segments, gamma, beta, mask, positions. In a quantised
// model the tables, gamma and beta (inputs 2 to 6) each have a scale at input + 6 and a zero point at input +
// 11, and there are no positions.
constexpr int kScaleOf = 6, kZeroOf = 11;

// x, a selection of elements of input `i`, as f32.
NodeId Real(OpContext& c, NodeId x, int i, bool quantised) {
  Builder& b = c.b;
  x = b.Cast(x, DType::kF32);
  if (!quantised) return x;
  const auto number = [&](int of) { return b.Cast(b.Reshape(c.In(of), Shape{}), DType::kF32); };
  return b.Mul(b.Sub(x, number(i + kZeroOf)), number(i + kScaleOf));
}

Status CheckQuantised(OpContext& c) {
  for (int i = 2; i <= 6; ++i) {
    if (i == 4 && !c.Has(4) && !c.Has(1) && !c.Has(4 + kScaleOf) && !c.Has(4 + kZeroOf)) continue;
    const int scale = i + kScaleOf, zero = i + kZeroOf;
    if (!c.Has(i) || !c.Has(scale) || !c.Has(zero) || (i == 4 && !c.Has(1))) {
      return Status::Error(Code::kCorrupt, "of inputs %d, %d and %d%s some are missing", i, scale, zero,
                           i == 4 ? ", and the segments," : "");
    }
    if ((c.dtype(i) != DType::kU8 && c.dtype(i) != DType::kI8) || c.dtype(zero) != c.dtype(i) ||
        !IsFloat(c.dtype(scale)) || c.shape(zero).elements() != 1 || c.shape(scale).elements() != 1) {
      return Status::Error(Code::kCorrupt,
                           "input %d of type %s with a scale %s%s and a zero point %s%s: i8 or u8, and one "
                           "number each, are needed",
                           i, Name(c.dtype(i)), Name(c.dtype(scale)), Text(c.shape(scale)).c_str(),
                           Name(c.dtype(zero)), Text(c.shape(zero)).c_str());
    }
  }
  return Status::Ok();
}

Result<NodeId> EmbeddingSum(OpContext& c, bool quantised) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 2));
  for (int table : {2, 3}) RONDO_RETURN_IF_ERROR(c.RequireRank(table, 2, 2));
  const Shape ids = c.shape(0);
  const int64_t hidden = c.shape(2)[1];
  const auto rows = [&](int table, NodeId index) -> Result<NodeId> {
    if (c.shape(table)[1] != hidden || c.shape(table).elements() == 0 || c.dtype(table) != c.dtype(2))
      return Status::Error(Code::kCorrupt, "a table of shape %s", Text(c.shape(table)).c_str());
    return Real(c, b.Gather(c.In(table), index, 0, false), table, quantised);
  };
  RONDO_ASSIGN_OR_RETURN(NodeId sum, rows(2, c.In(0)));
  NodeId position = b.Iota({1, ids[1]}, 1);
  if (!quantised && c.Has(8)) {
    if (c.rank(8) != 2 || c.shape(8)[1] != ids[1] || (c.shape(8)[0] != 1 && c.shape(8)[0] != ids[0]))
      return Status::Error(Code::kCorrupt, "position_ids of shape %s", Text(c.shape(8)).c_str());
    position = c.In(8);
  }
  RONDO_ASSIGN_OR_RETURN(NodeId places, rows(3, position));
  sum = b.Add(sum, places);
  if (c.Has(4)) {
    RONDO_RETURN_IF_ERROR(c.RequireRank(4, 2, 2));
    if (c.Has(1) && !(c.shape(1) == ids))
      return Status::Error(Code::kCorrupt, "segment_ids of another shape");
    NodeId segment = c.Has(1) ? c.In(1) : b.Expand(b.Scalar(DType::kI64, 0), ids);
    RONDO_ASSIGN_OR_RETURN(NodeId segments, rows(4, segment));
    sum = b.Add(sum, segments);
  }
  return sum;
}

template <bool kQuantised>
Status EmbedLayerNormalization(OpContext& c) {
  Builder& b = c.b;
  for (int i : {2, 3, 5, 6}) {  // segments (1 and 4) are optional
    if (!c.Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
  }
  RONDO_RETURN_IF_ERROR(c.RequireInteger(0));
  RONDO_RETURN_IF_ERROR(kQuantised ? CheckQuantised(c) : c.RequireFloat(2));
  const DType type = c.dtype(kQuantised ? 2 + kScaleOf : 2);
  if (c.shape(0).elements() == 0) return Status::Error(Code::kCorrupt, "there are no words");
  RONDO_ASSIGN_OR_RETURN(NodeId sum, EmbeddingSum(c, kQuantised));
  const Shape width = {c.shape(2)[1]};
  if (!(c.shape(5) == width) || !(c.shape(6) == width))
    return Status::Error(Code::kCorrupt, "gamma or beta do not fit");
  NodeId y = Standardise(b, sum, {2}, c.Float("epsilon", 1e-12f));
  y = b.Add(b.Mul(y, Real(c, c.In(5), 5, kQuantised)), Real(c, c.In(6), 6, kQuantised));
  c.Set(0, b.Cast(y, type));
  if (c.Wants(1)) {  // the number of words in each entry
    NodeId count = b.Expand(b.Scalar(DType::kI32, 0), {c.shape(0)[0]});
    if (c.Has(7)) {
      if (!(c.shape(7) == c.shape(0))) return Status::Error(Code::kCorrupt, "a mask of another shape");
      NodeId one = b.Cast(b.Binary(TapeOp::kEqual, b.Cast(c.In(7), DType::kI32), b.Scalar(DType::kI32, 1)),
                          DType::kI32);
      count = b.Reduce(ir::ReduceKind::kSum, one, {1}, false);
    }
    c.Set(1, count);
  }
  if (!kQuantised && c.Wants(2)) c.Set(2, b.Cast(sum, type));
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"EmbedLayerNormalization", 1, EmbedLayerNormalization<false>, 1, kLatest, kDomain},
    {"QEmbedLayerNormalization", 1, EmbedLayerNormalization<true>, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> EmbeddingOps() { return kOps; }

}  // namespace rondo::importer
