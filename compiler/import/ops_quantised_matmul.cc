// Matmuls of quantised values with a float result: those of com.microsoft, and attention over such
// projections.
#include "compiler/import/call_op.h"
#include "compiler/import/decompose.h"
#include "compiler/import/multi_head.h"
#include "compiler/import/quantise.h"
#include "compiler/import/registry.h"
#include "compiler/ir/packed.h"
#include "core/scalar.h"

namespace rondo::importer {
namespace {

constexpr const char* kDomain = "com.microsoft";

// Input `i` as f32: one value, or one per column of `columns`.
Result<NodeId> Scale(OpContext& c, int i, int64_t columns) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(i));
  const int64_t count = c.shape(i).elements();
  if (count != 1 && count != columns) {
    return Status::Error(Code::kUnsupported,
                         "a scale of shape %s; one number, or one for each of %lld columns",
                         Text(c.shape(i)).c_str(), static_cast<long long>(columns));
  }
  NodeId scale = c.b.Cast(c.In(i), DType::kF32);
  return c.b.Reshape(scale, count == 1 ? Shape{} : Shape({columns}));
}

// y + input `bias` [columns], if it exists.
Result<NodeId> WithBias(OpContext& c, NodeId y, int bias) {
  if (!c.Has(bias)) return y;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(bias));
  const Shape& s = c.b.shape(y);
  if (c.shape(bias).elements() != s[s.rank - 1])
    return Status::Error(Code::kCorrupt, "a bias of shape %s", Text(c.shape(bias)).c_str());
  return c.b.Add(y, c.b.Reshape(c.b.Cast(c.In(bias), DType::kF32), {s[s.rank - 1]}));
}

// The exact matmul of a and input `w` (in i32, each less its zero point), times both scales.
Result<NodeId> RealProduct(OpContext& c, NodeId a, NodeId a_zero, NodeId a_scale, int w, int w_zero,
                           int w_scale) {
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "MatMulInteger", 10, {a, c.In(w), a_zero, c.In(w_zero)}));
  const Shape& s = c.b.shape(y);
  RONDO_ASSIGN_OR_RETURN(NodeId scale, Scale(c, w_scale, s.rank == 0 ? 1 : s[s.rank - 1]));
  return c.b.Mul(c.b.Cast(y, DType::kF32), c.b.Mul(scale, a_scale));
}

// A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias.
Status MatMulIntegerToFloat(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(NodeId scale, Scale(c, 2, 1));
  RONDO_ASSIGN_OR_RETURN(NodeId y, RealProduct(c, c.In(0), c.In(4), scale, 1, 5, 3));
  RONDO_ASSIGN_OR_RETURN(y, WithBias(c, y, 6));
  return c.Give(c.b.Cast(y, c.dtype(2)));
}

// A (float), B, b_scale, b_zero_point, bias.
Status DynamicQuantizeMatMul(OpContext& c) {
  if (c.dtype(0) != DType::kF32 || c.shape(0).elements() == 0)
    return Status::Error(Code::kCorrupt, "input 0 is not an f32 tensor with elements");
  const DynamicallyQuantised a = QuantiseDynamically(c.b, c.In(0));
  RONDO_ASSIGN_OR_RETURN(NodeId y, RealProduct(c, a.numbers, a.zero, a.scale, 1, 3, 2));
  RONDO_ASSIGN_OR_RETURN(y, WithBias(c, y, 4));
  return c.Give(y);
}

// A, its scale and zero point, B, its scale and zero point, C (i32), and optionally the result's scale and
// zero point.
Status QGemm(OpContext& c) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 2, 2));
  RONDO_RETURN_IF_ERROR(c.RequireRank(3, 2, 2));
  NodeId a = c.In(0), w = c.In(3);
  if (c.Int("transA", 0) != 0) a = b.Transpose(a, {1, 0});
  if (c.Int("transB", 0) != 0) w = b.Transpose(w, {1, 0});
  RONDO_ASSIGN_OR_RETURN(NodeId y, CallOne(c, "MatMulInteger", 10, {a, w, c.In(2), c.In(5)}));
  if (c.Has(6)) {
    RONDO_ASSIGN_OR_RETURN(Shape shape, c.Broadcast(b.shape(y), c.shape(6)));
    if (c.dtype(6) != DType::kI32 || !(shape == b.shape(y)))
      return Status::Error(Code::kCorrupt, "C of shape %s", Text(c.shape(6)).c_str());
    y = b.Add(y, c.In(6));
  }
  RONDO_ASSIGN_OR_RETURN(NodeId a_scale, Scale(c, 1, 1));
  RONDO_ASSIGN_OR_RETURN(NodeId w_scale, Scale(c, 4, b.shape(y)[1]));
  NodeId scale = b.BinaryScalar(TapeOp::kMul, b.Mul(a_scale, w_scale), c.Float("alpha", 1));
  y = b.Mul(b.Cast(y, DType::kF32), scale);
  if (c.Has(7) && c.Has(8)) {
    RONDO_ASSIGN_OR_RETURN(NodeId out, Scale(c, 7, 1));
    if (c.shape(8).elements() != 1) return Status::Error(Code::kCorrupt, "a zero point of several numbers");
    y = Quantise(b, y, out, b.Reshape(c.In(8), Shape{}), c.dtype(8));
  }
  return c.Give(y);
}

// input, weight, bias, input_scale, weight_scale, mask_index, input_zero_point, weight_zero_point, past.
Status QAttention(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 3, 3));
  RONDO_RETURN_IF_ERROR(c.RequireRank(1, 2, 2));
  if (c.Int("past_present_share_buffer", 0) != 0)
    return Status::Error(Code::kUnsupported,
                         "past_present_share_buffer: export the model with a past of its own length");
  RONDO_ASSIGN_OR_RETURN(NodeId scale, Scale(c, 3, 1));
  RONDO_ASSIGN_OR_RETURN(NodeId y, RealProduct(c, c.In(0), c.In(6), scale, 1, 7, 4));
  RONDO_ASSIGN_OR_RETURN(y, WithBias(c, y, 2));
  return AttendProjected(c, y, 5, 8, -1);
}

// The quantised weights of RealGates as a packed constant that kernels read directly; the rows of all
// directions follow each other. kNoNode if the weights are not constant or too small for that form.
NodeId PackedGates(OpContext& c, int w, int scale, int zero) {
  constexpr int64_t kMostBytes = int64_t{1} << 44;
  Builder& b = c.b;
  const Shape s = c.shape(w);
  const int64_t n = s[0] * s[2], k = s[1];
  std::shared_ptr<const ir::ConstantData> weights, scales, zeros;
  if (n < 16 || k < 32 || c.host.shapes_only() || ByteSize(c.dtype(w)) != 1 || c.dtype(zero) != c.dtype(w) ||
      !b.ConstantValue(c.In(w), kMostBytes, &weights) || !b.ConstantValue(c.In(scale), kMostBytes, &scales) ||
      !b.ConstantValue(c.In(zero), kMostBytes, &zeros))
    return kNoNode;
  // A code is the distance from the type's least value.
  const uint8_t least = c.dtype(w) == DType::kI8 ? 0x80 : 0;
  std::vector<uint8_t> codes(static_cast<size_t>(n * k));
  std::vector<float> scale_of(static_cast<size_t>(n)), zero_of(static_cast<size_t>(n));
  for (int64_t row = 0; row < n; ++row) {
    const int64_t direction = row / s[2], column = row % s[2];
    for (int64_t i = 0; i < k; ++i) {
      const int64_t from = (direction * k + i) * s[2] + column;
      codes[static_cast<size_t>(row * k + i)] = weights->bytes[static_cast<size_t>(from)] ^ least;
    }
    const auto number = [&](int input) { return c.shape(input).elements() == s[0] ? direction : row; };
    scale_of[static_cast<size_t>(row)] =
        scalar::Load<float>(scales->dtype, scales->bytes.data(), number(scale));
    zero_of[static_cast<size_t>(row)] = zeros->bytes[static_cast<size_t>(number(zero))] ^ least;
  }
  const std::shared_ptr<const ir::PackedMatrix> matrix =
      ir::Pack(PackedType::kU8, n, k, k, codes, scale_of, zero_of, 0, DType::kF32);
  return b.Reshape(b.Constant(ir::PackedConstant(matrix, DType::kF32, weights->name)), {s[0], s[2], k});
}

// Quantised weights [directions, k, 4 * hidden] (input `w`; scale and zero point one per direction, or one
// per column) as floats [directions, 4 * hidden, k].
Result<NodeId> RealGates(OpContext& c, int w, int scale, int zero) {
  Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireRank(w, 3, 3));
  RONDO_RETURN_IF_ERROR(c.RequireInteger(w));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(scale));
  const Shape s = c.shape(w);
  NodeId parts[2];
  for (int i = 0; i < 2; ++i) {
    const int input = i == 0 ? scale : zero;
    const int64_t count = c.shape(input).elements();
    if (count != s[0] && count != s[0] * s[2])
      return Status::Error(Code::kCorrupt, "input %d of shape %s", input, Text(c.shape(input)).c_str());
    parts[i] = b.Reshape(b.Cast(c.In(input), DType::kF32), {s[0], 1, count / s[0]});
  }
  if (const NodeId packed = PackedGates(c, w, scale, zero); packed != kNoNode) return packed;
  NodeId real = b.Mul(b.Sub(b.Cast(c.In(w), DType::kF32), parts[1]), parts[0]);
  return b.Transpose(real, {0, 2, 1});
}

// The inputs of LSTM with W and R quantised, followed by their scales and zero points. The other operand is
// rounded to 8 bits: the input for all steps at once, the state for each step (ops_recurrent.cc).
Status DynamicQuantizeLSTM(OpContext& c) {
  for (int i = 8; i < 12; ++i) {
    if (!c.Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
  }
  RONDO_ASSIGN_OR_RETURN(NodeId w, RealGates(c, 1, 8, 9));
  RONDO_ASSIGN_OR_RETURN(NodeId r, RealGates(c, 2, 10, 11));
  RONDO_ASSIGN_OR_RETURN(std::vector<NodeId> outputs,
                         CallOp(c, "LSTM", 14, {c.In(0), w, r, c.In(3), c.In(4), c.In(5), c.In(6), c.In(7)}));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] != kNoNode) c.Set(static_cast<int>(i), outputs[i]);
  }
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"MatMulIntegerToFloat", 4, MatMulIntegerToFloat, 1, kLatest, kDomain},
    {"DynamicQuantizeMatMul", 3, DynamicQuantizeMatMul, 1, kLatest, kDomain},
    {"QGemm", 6, QGemm, 1, kLatest, kDomain},
    {"QAttention", 5, QAttention, 1, kLatest, kDomain},
    {"DynamicQuantizeLSTM", 3, DynamicQuantizeLSTM, 1, kLatest, kDomain},
};

}  // namespace

Span<const OpRow> QuantisedMatMulOps() { return kOps; }

}  // namespace rondo::importer
