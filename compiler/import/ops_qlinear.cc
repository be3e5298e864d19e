// com.microsoft operators between quantised tensors. They dequantise, compute in f32, and quantise the
// result.
#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/quantise.h"
#include "compiler/import/registry.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// Input `i` as one number of type `dtype`; 0 if it is absent.
Result<NodeId> OneNumber(OpContext& c, int i, DType dtype) {
  if (!c.Has(i)) return c.b.Scalar(dtype, 0);
  if (c.shape(i).elements() != 1)
    return Status::Error(Code::kUnsupported, "input %d of shape %s; one number is needed", i,
                         Text(c.shape(i)).c_str());
  return c.b.Cast(c.b.Reshape(c.In(i), Shape{}), dtype);
}

// (x - zero) * scale as f32: inputs x, x + 1 (the scale) and x + 2 (the zero point, optional).
Result<NodeId> Real(OpContext& c, int x) {
  if (!c.Has(x) || !c.Has(x + 1))
    return Status::Error(Code::kCorrupt, "inputs %d and %d are needed", x, x + 1);
  RONDO_RETURN_IF_ERROR(c.RequireInteger(x));
  RONDO_ASSIGN_OR_RETURN(NodeId scale, OneNumber(c, x + 1, DType::kF32));
  RONDO_ASSIGN_OR_RETURN(NodeId zero, OneNumber(c, x + 2, DType::kF32));
  return c.b.Mul(c.b.Sub(c.b.Cast(c.In(x), DType::kF32), zero), scale);
}

// Sets output 0 to y, quantised to the type of input `like`. The scale is input `scale`, and the zero point
// is the next input.
Status SetQuantised(OpContext& c, NodeId y, int scale, int like) {
  if (!c.Has(scale)) return Status::Error(Code::kCorrupt, "input %d is missing", scale);
  const DType dtype = c.dtype(like);
  if (dtype != DType::kU8 && dtype != DType::kI8)
    return Status::Error(Code::kUnsupported, "type %s", Name(dtype));
  RONDO_ASSIGN_OR_RETURN(NodeId s, OneNumber(c, scale, DType::kF32));
  RONDO_ASSIGN_OR_RETURN(NodeId zero, OneNumber(c, scale + 1, dtype));
  return c.Give(Quantise(c.b, y, s, zero, dtype));
}

// A, its scale and zero point; B, its scale and zero point; the result's scale and zero point.
template <TapeOp kOp>
Status QLinearBinary(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(NodeId a, Real(c, 0));
  RONDO_ASSIGN_OR_RETURN(NodeId b, Real(c, 3));
  RONDO_RETURN_IF_ERROR(c.Broadcast(c.shape(0), c.shape(3)).status());
  return SetQuantised(c, c.b.Binary(kOp, a, b), 6, 0);
}

Status QLinearSigmoid(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(NodeId x, Real(c, 0));
  return SetQuantised(c, Sigmoid(c.b, x), 3, 0);
}

Status QLinearLeakyRelu(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(NodeId x, Real(c, 0));
  NodeId below = c.b.Binary(TapeOp::kLess, x, c.b.Scalar(DType::kF32, 0));
  NodeId y = c.b.Select(below, c.b.BinaryScalar(TapeOp::kMul, x, c.Float("alpha", 0.01f)), x);
  return SetQuantised(c, y, 3, 0);
}

// Without an axis it uses the last one in every opset: only Softmax's own default differs.
Status QLinearSoftmax(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(NodeId x, Real(c, 0));
  const int64_t opset = c.HasAttribute("axis") ? c.Int("opset", 13) : 13;
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "Softmax", opset, {x}));
  return SetQuantised(c, y, 3, 0);
}

Status QLinearReduceMean(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(NodeId x, Real(c, 0));
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "ReduceMean", 13, {x}));
  return SetQuantised(c, y, 3, 0);
}

template <bool kGlobal>
Status QLinearAveragePool(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 5));
  const bool last = c.Int("channels_last", 0) != 0;
  RONDO_ASSIGN_OR_RETURN(NodeId x, Real(c, 0));
  if (last) x = ChannelsFirst(c.b, x);
  RONDO_ASSIGN_OR_RETURN(
      NodeId y, kGlobal ? CallOne(c, "GlobalAveragePool", 1, {x}) : CallOne(c, "AveragePool", 19, {x}));
  return SetQuantised(c, last ? ChannelsLast(c.b, y) : y, 3, 0);
}

// The result's scale and zero point, then each part with its scale and zero point.
Status QLinearConcat(OpContext& c) {
  std::vector<NodeId> parts;
  for (int i = 2; i + 1 < c.num_inputs(); i += 3) {
    RONDO_ASSIGN_OR_RETURN(NodeId part, Real(c, i));
    parts.push_back(part);
  }
  if (parts.empty() || !c.Has(1)) return Status::Error(Code::kCorrupt, "there are no parts");
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "Concat", 13, parts));
  return SetQuantised(c, y, 0, 1);
}

Status QLinearWhere(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(NodeId x, Real(c, 1));
  RONDO_ASSIGN_OR_RETURN(NodeId y, Real(c, 4));
  RONDO_ASSIGN_OR_RETURN(NodeId z, CallOne(c, "Where", 16, {c.In(0), x, y}));
  return SetQuantised(c, z, 7, 1);
}

Status QLinearConv(OpContext& c) {
  std::vector<NodeId> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.In(i));
  const bool last = c.Int("channels_last", 0) != 0;
  if (last) {
    RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 5));
    inputs[0] = ChannelsFirst(c.b, inputs[0]);
  }
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "QLinearConv", 10, inputs));
  return c.Give(last ? ChannelsLast(c.b, y) : y);
}

constexpr OpRow kOps[] = {
    {"QLinearAdd", 2, QLinearBinary<TapeOp::kAdd>, 1, kLatest, kDomain},
    {"QLinearMul", 2, QLinearBinary<TapeOp::kMul>, 1, kLatest, kDomain},
    {"QLinearSigmoid", 2, QLinearSigmoid, 1, kLatest, kDomain},
    {"QLinearLeakyRelu", 2, QLinearLeakyRelu, 1, kLatest, kDomain},
    {"QLinearSoftmax", 2, QLinearSoftmax, 1, kLatest, kDomain},
    {"QLinearReduceMean", 2, QLinearReduceMean, 1, kLatest, kDomain},
    {"QLinearAveragePool", 2, QLinearAveragePool<false>, 1, kLatest, kDomain},
    {"QLinearGlobalAveragePool", 2, QLinearAveragePool<true>, 1, kLatest, kDomain},
    {"QLinearConcat", 5, QLinearConcat, 1, kLatest, kDomain},
    {"QLinearWhere", 9, QLinearWhere, 1, kLatest, kDomain},
    {"QLinearConv", 8, QLinearConv, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> QLinearOps() { return kOps; }

}  // namespace rondo::importer
