// Rows of texts without their padding, as ONNX Runtime packs them for BERT (RemovePadding, PackedAttention,
// RestorePadding). Their number is known only at run time. No row moves (data_sizes.h): all rows of all texts
// exist, and padding rows do not count.
#include "compiler/import/data_sizes_rules.h"
#include "formats/onnx/onnx.pb.h"

namespace rondo::importer {
namespace {

constexpr char kMicrosoft[] = "com.microsoft";

// Packs the padded rows [texts, rows, ...]; the first `count` [texts] rows of each text are real.
Status RemovePadding(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 3));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(1));
  Builder& b = c.b;
  const Shape s = c.shape(0);
  if (!(c.shape(1) == Shape({s[0]})) || s.elements() == 0) {
    return Status::Error(Code::kCorrupt, "sequence_token_count of shape %s for an input of shape %s",
                         Text(c.shape(1)).c_str(), Text(s).c_str());
  }
  auto rows = std::make_shared<DataSizedDim>();
  rows->source = c.b.sources().empty() ? c.proto.op_type() : c.b.sources()[0];
  rows->length = s[0] * s[1];
  rows->each = s[1];
  rows->counts = b.Cast(c.In(1), DType::kI64);
  const NodeId real = b.Binary(TapeOp::kLess, b.Iota({s[0], s[1]}, 1), b.Reshape(rows->counts, {s[0], 1}));
  rows->real = b.Reshape(real, {rows->length});
  c.SetValue(0, data_sizes::WithDim(b.Reshape(c.In(0), {rows->length, s[2]}), rows, 0));
  // The origins of the rows have no values in the IR: nodes that need them ask `rows`.
  DataSizeFact fact;
  fact.packing = rows;
  const Shape shapes[] = {{s[0], s[1]}, {s[0] + 1}, {1}};
  for (int i = 1; i <= 3; ++i) {
    if (!c.Wants(i)) continue;
    Value value{b.Expand(b.Ints(DType::kI32, Shape{}, {0}), shapes[i - 1]), false, {}};
    value.data_size = std::make_shared<const DataSizeFact>(fact);
    c.SetValue(i, std::move(value));
  }
  return Status::Ok();
}

// Called only for rows that RemovePadding did not pack: for packed rows, the rules below replace this
// handler.
Status NeedsPackedRows(OpContext&) {
  return Status::Error(
      Code::kUnsupported,
      "its rows are not those of a RemovePadding node of the model, so that nobody knows which "
      "text each is of: export the model with padding (Attention, MultiHeadAttention)");
}

}  // namespace

namespace data_sizes {
namespace {

// The rows along the first dim of input 0, if input `offset` says where they came from.
Result<Space> PackedRows(const OpContext& c, int offset) {
  const DataSizeFact *fact = DimFactOf(c, 0), *from = FactOf(c, offset);
  if (fact == nullptr || fact->axis != 0 || fact->dim->counts == kNoNode)
    return Refuse(c, 0, "needs rows that RemovePadding gives");
  if (from == nullptr || from->packing != fact->dim)
    return Refuse(c, offset, "needs the token_offset that RemovePadding gives with them");
  return fact->dim;
}

// Splits the first dim into texts and their rows.
Value Padded(OpContext& c, int i, const Space& rows) {
  if (!c.Has(i)) return {};
  Shape shape = c.shape(i);
  for (int d = shape.rank++; d > 0; --d) shape[d] = shape[d - 1];
  shape[0] = rows->length / rows->each;
  shape[1] = rows->each;
  return Value{c.b.Reshape(c.In(i), shape), false, {}};
}

// Runs operator `op` on padded rows, with the keys behind each text masked, and gives packed rows again.
Status AsPadded(OpContext& c, const char* op, const Space& rows, std::vector<Value> inputs) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    const bool packed = FactOf(c, i) != nullptr && FactOf(c, i)->packing == rows;
    if (FactOf(c, i) != nullptr && !packed && DimFactOf(c, i) == nullptr)
      return Refuse(c, i, "computes with that number");
  }
  OpContext padded(&c.b, &c.host, c.proto, c.opset, c.attributes(), std::move(inputs));
  RONDO_RETURN_IF_ERROR(FindOp(kMicrosoft, op, 1)->handler(padded));
  const NodeId y = padded.outputs()[0].node;
  c.SetValue(0, WithDim(c.b.Reshape(y, {rows->length, c.b.shape(y)[2]}), rows, 0));
  return Status::Ok();
}

Value Counts(OpContext& c, const Space& rows) {
  return Value{c.b.Cast(rows->counts, DType::kI32), false, {}};
}

// Inputs: rows, weights, bias, token_offset, cumulative_sequence_length, attention_bias.
Status PackedAttention(const OpRow&, OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 2));
  RONDO_ASSIGN_OR_RETURN(const Space rows, PackedRows(c, 3));
  const auto plain = [&](int i) { return c.Has(i) && FactOf(c, i) == nullptr ? c.InValue(i) : Value(); };
  return AsPadded(c, "Attention", rows,
                  {Padded(c, 0, rows), plain(1), plain(2), Counts(c, rows), Value(), plain(5)});
}

// Inputs: query, key, value, bias, token_offset, cumulative_sequence_length, attention_bias.
Status PackedMultiHeadAttention(const OpRow&, OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 4));
  RONDO_ASSIGN_OR_RETURN(const Space rows, PackedRows(c, 4));
  for (int i : {1, 2}) {
    const DataSizeFact* fact = DimFactOf(c, i);
    if (c.Has(i) && (fact == nullptr || fact->dim != rows || fact->axis != 0))
      return Refuse(c, i, "needs keys and values of the same rows");
  }
  const auto plain = [&](int i) { return c.Has(i) && FactOf(c, i) == nullptr ? c.InValue(i) : Value(); };
  return AsPadded(
      c, "MultiHeadAttention", rows,
      {Padded(c, 0, rows), Padded(c, 1, rows), Padded(c, 2, rows), plain(3), Counts(c, rows), plain(6)});
}

// Padding rows become 0.
Status RestorePadding(const OpRow&, OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 2));
  RONDO_ASSIGN_OR_RETURN(const Space rows, PackedRows(c, 1));
  const NodeId real = RealAlong(c.b, rows, 0, 2);
  const NodeId x = c.b.Select(real, c.In(0), c.b.Scalar(c.dtype(0), 0));
  const int64_t texts = rows->length / rows->each;
  return c.Give(c.b.Reshape(x, {texts, rows->each, c.shape(0)[1]}));
}

constexpr Rule kRules[] = {
    {"PackedAttention", PackedAttention},
    {"PackedMultiHeadAttention", PackedMultiHeadAttention},
    {"RestorePadding", RestorePadding},
};

}  // namespace

Span<const Rule> PackingRules() { return kRules; }

}  // namespace data_sizes

namespace {

constexpr OpRow kOps[] = {
    {"RemovePadding", 2, RemovePadding, 1, kLatest, kMicrosoft},
    {"PackedAttention", 5, NeedsPackedRows, 1, kLatest, kMicrosoft},
    {"PackedMultiHeadAttention", 6, NeedsPackedRows, 1, kLatest, kMicrosoft},
    {"RestorePadding", 2, NeedsPackedRows, 1, kLatest, kMicrosoft},
};

}  // namespace

Span<const OpRow> PackingOps() { return kOps; }

}  // namespace rondo::importer
