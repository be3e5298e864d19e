// Quantisation and back.
#include <algorithm>
#include <optional>

#include "compiler/import/decompose.h"
#include "compiler/import/narrow_weight.h"
#include "compiler/import/packed_weight.h"
#include "compiler/import/quantise.h"
#include "compiler/import/registry.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {

void IntegerRange(DType dtype, double* low, double* high, int bits) {
  bool is_signed = dtype == DType::kI8 || dtype == DType::kI16;
  double values = bits != 0 ? 1 << bits : ByteSize(dtype) == 1 ? 256 : 65536;
  *low = is_signed ? -values / 2 : 0;
  *high = *low + values - 1;
}

NodeId Quantise(ir::Builder& b, NodeId x, NodeId scale, NodeId zero, DType dtype, int bits) {
  double low = 0, high = 0;
  IntegerRange(dtype, &low, &high, bits);
  NodeId y = b.Unary(TapeOp::kRound, b.Div(x, scale));
  if (zero != kNoNode) y = b.Add(y, b.Cast(zero, DType::kF32));
  return b.Cast(Clamp(b, y, low, high), dtype);
}

namespace {

// Whether the construction of `id` excludes negative elements, as a Relu does.
bool IsNotNegative(ir::Builder& b, NodeId id, int steps = 0) {
  constexpr int kMostSteps = 8;
  const ir::Graph& g = b.graph();
  const ir::Node& node = g.node(g.BaseOf(id));
  if (steps == kMostSteps) return false;
  const auto is = [&](NodeId input) { return IsNotNegative(b, input, steps + 1); };
  const auto all = [&] { return std::all_of(node.inputs.begin(), node.inputs.end(), is); };
  switch (node.op) {
    case ir::Op::kConstant: {
      std::vector<double> values;
      return node.shape.elements() == 1 && IsFloat(node.dtype) && b.ConstantFloats(node.id, &values) &&
             values[0] >= 0;
    }
    case ir::Op::kPointwise:
      switch (node.As<ir::PointwiseAttrs>().op) {
        case TapeOp::kMax: return std::any_of(node.inputs.begin(), node.inputs.end(), is);
        case TapeOp::kMin:
        case TapeOp::kAdd:
        case TapeOp::kMul: return all();
        case TapeOp::kAbs:
        case TapeOp::kExp:
        case TapeOp::kSigmoid: return true;
        default: return false;
      }
    case ir::Op::kPool: {
      // The maximum of a window outside the picture is -inf.
      const ir::PoolAttrs& pool = node.As<ir::PoolAttrs>();
      bool inside = true;
      for (size_t a = 0; a < pool.kernel.size(); ++a) {
        const int64_t reach = (pool.kernel[a] - 1) * pool.dilations[a];
        inside = inside && pool.pads_begin[a] <= reach && pool.pads_end[a] <= reach;
      }
      return (pool.kind != Combine::kMax || inside) && all();
    }
    case ir::Op::kConcat: return all();
    default: return false;
  }
}

}  // namespace

DynamicallyQuantised QuantiseDynamically(ir::Builder& b, NodeId x) {
  // Reduces row by row first, so that many rows run at once where x is made. For pictures the rows run along
  // an axis that is not contiguous in either order of the channels.
  const int rank = b.shape(x).rank, along = rank >= 4 ? 2 : rank - 1;
  const auto extreme = [&](ir::ReduceKind kind) {
    NodeId of = rank > 1 ? b.Reduce(kind, x, {along}, true) : x;
    return rank > 0 ? b.Reduce(kind, of, AxisRange(0, rank), false) : of;
  };
  // If nothing is negative, the range begins at 0: its minimum needs no search, and a picture's padding is
  // known.
  const bool from_zero = IsNotNegative(b, x);
  NodeId min = from_zero ? kNoNode : b.BinaryScalar(TapeOp::kMin, extreme(ir::ReduceKind::kMin), 0);
  const NodeId max = b.BinaryScalar(TapeOp::kMax, extreme(ir::ReduceKind::kMax), 0);
  NodeId scale = b.BinaryScalar(TapeOp::kDiv, from_zero ? max : b.Sub(max, min), 255);
  // A tensor of zeros has no range; any scale gives zeros.
  NodeId one = b.Scalar(DType::kF32, 1);
  NodeId divisor = b.Select(b.Binary(TapeOp::kEqual, scale, b.Scalar(DType::kF32, 0)), one, scale);
  if (from_zero) {
    const NodeId zero = b.Scalar(DType::kU8, 0);
    return {Quantise(b, x, divisor, zero, DType::kU8), scale, zero};
  }
  NodeId zero = b.Unary(TapeOp::kRound, Clamp(b, b.Div(b.Unary(TapeOp::kNeg, min), divisor), 0, 255));
  zero = b.Cast(zero, DType::kU8);
  return {Quantise(b, x, divisor, zero, DType::kU8), scale, zero};
}

namespace {

bool Narrow(DType t) { return !IsFloat(t) && t != DType::kBool && ByteSize(t) <= 2; }

// A scale or zero point broadcast to input 0: one number, one per index of `axis`, or one per block of
// `block_size` indices.
Result<NodeId> Spread(OpContext& c, int i) {
  const Shape& x = c.shape(0);
  if (c.shape(i).elements() == 1 && c.rank(i) <= 1) return c.b.Reshape(c.In(i), Shape{});
  RONDO_ASSIGN_OR_RETURN(int axis, c.Axis(c.Int("axis", 1), x.rank));
  int64_t block = c.Int("block_size", 0);
  if (block == 0) {
    if (c.rank(i) != 1 || c.shape(i)[0] != x[axis]) {
      return Status::Error(Code::kCorrupt, "input %d of shape %s does not fit axis %d of %s", i,
                           Text(c.shape(i)).c_str(), axis, Text(x).c_str());
    }
    return AlongAxis(c.b, c.In(i), axis, x.rank);
  }
  if (block < 0 || c.rank(i) != x.rank || !(WithDim(c.shape(i), axis, 0) == WithDim(x, axis, 0)) ||
      x[axis] == 0 || c.shape(i)[axis] != (x[axis] - 1) / block + 1 || x.rank >= kMaxRank) {
    return Status::Error(Code::kCorrupt, "input %d of shape %s does not fit blocks of %lld of %s", i,
                         Text(c.shape(i)).c_str(), static_cast<long long>(block), Text(x).c_str());
  }
  NodeId each = RepeatEach(c.b, c.In(i), axis, std::min(block, x[axis]));
  return c.b.Slice(each, axis, 0, 1, x[axis]);
}

// The result type of a quantisation: `narrow` is a type that plans hold only packed, represented in `dtype`.
struct Target {
  DType dtype = DType::kU8;
  std::optional<NarrowCodes> narrow;
};

Target TargetOf(NarrowCodes narrow) {
  const DType dtype = IsReal(narrow) ? DType::kF32 : narrow.is_signed ? DType::kI8 : DType::kU8;
  return {dtype, std::move(narrow)};
}

// The type from the zero point, or the attribute, or `otherwise`.
Result<Target> ReadTarget(const OpContext& c, Target otherwise) {
  if (c.Has(2) && c.InValue(2).narrow != nullptr) return TargetOf(*c.InValue(2).narrow);
  if (c.Has(2)) return Target{c.dtype(2), std::nullopt};
  const int given = static_cast<int>(c.Int("output_dtype", 0));
  if (given == 0) return otherwise;
  if (std::optional<NarrowCodes> narrow = NarrowTypeOf(given)) return TargetOf(std::move(*narrow));
  RONDO_ASSIGN_OR_RETURN(const DType dtype, onnx::DTypeOf(given));
  return Target{dtype, std::nullopt};
}

// Whether input `i` is of FLOAT8E8M0.
bool IsPower(const OpContext& c, int i) {
  return c.Has(i) && c.InValue(i).narrow != nullptr && c.InValue(i).narrow->is_power;
}

Status QuantiseTo(OpContext& c, const Target& target) {
  ir::Builder& b = c.b;
  const bool real = target.narrow && IsReal(*target.narrow);
  if (c.dtype(0) == DType::kBool) return Status::Error(Code::kCorrupt, "input 0 has type bool");
  for (int i : {0, 1}) {
    if (c.InValue(i).bits == 0 || (i == 1 && IsPower(c, i))) continue;
    return Status::Error(Code::kUnsupported,
                         "input %d has numbers of %d bits: put a DequantizeLinear between", i,
                         c.InValue(i).bits);
  }
  if (target.narrow && target.narrow->is_power)
    return Status::Error(Code::kUnsupported, "quantisation to FLOAT8E8M0: a Cast rounds to it");
  if (!real && !Narrow(target.dtype))
    return Status::Error(Code::kUnsupported, "quantisation to %s", Name(target.dtype));
  RONDO_ASSIGN_OR_RETURN(NodeId scale, Spread(c, 1));
  scale = b.Cast(scale, DType::kF32);
  NodeId zero = kNoNode;
  if (c.Has(2)) {
    RONDO_ASSIGN_OR_RETURN(zero, Spread(c, 2));
  }
  const NodeId x = b.Cast(c.In(0), DType::kF32);
  if (!target.narrow) {
    return c.Give(Quantise(b, x, scale, zero, target.dtype));
  }
  const bool saturates = c.Int("saturate", 1) != 0;
  const NodeId y =
      real ? RoundedTo(b, b.Div(x, scale), *target.narrow, saturates)  // its zero point only selects the type
           : Quantise(b, x, scale, zero, target.dtype, target.narrow->bits);
  c.SetValue(0, NarrowValue(b, y, *target.narrow));
  return Status::Ok();
}

Status QuantizeLinear(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const Target target, ReadTarget(c, {}));
  return QuantiseTo(c, target);
}

// The names of TensorRT's operators include the type.
template <int kDataType>
Status QuantizeTensorRt(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(const Target target, ReadTarget(c, TargetOf(*NarrowTypeOf(kDataType))));
  return QuantiseTo(c, target);
}

// Quantises to FP4 in blocks along an axis. Each block gets the scale for its greatest magnitude: output 1,
// in FP8 and relative to input 1, the scale for all blocks.
Status DynamicQuantizeFp4(OpContext& c) {
  ir::Builder& b = c.b;
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(1));
  RONDO_RETURN_IF_ERROR(c.RequireRank(0, 1, kMaxRank - 1));
  RONDO_ASSIGN_OR_RETURN(const int axis, c.Axis(c.Int("axis", 1), c.rank(0)));
  const Shape shape = c.shape(0);
  const int64_t block = c.Int("block_size", 0);
  if (block < 1 || shape[axis] % block != 0 || c.shape(1).elements() != 1 ||
      c.Int("scale_type", onnx::TensorProto::FLOAT8E4M3FN) != onnx::TensorProto::FLOAT8E4M3FN) {
    return Status::Error(
        Code::kUnsupported,
        "blocks of %lld along axis %d of %s with scales of type %lld for one of %s: rondo knows "
        "whole blocks with scales of FLOAT8E4M3FN (17) and one scale for all",
        static_cast<long long>(block), axis, Text(shape).c_str(),
        static_cast<long long>(c.Int("scale_type", 17)), Text(c.shape(1)).c_str());
  }
  Shape blocks = shape, cut;
  blocks[axis] = shape[axis] / block;
  for (int d = 0; d < shape.rank; ++d) {
    cut.dims[cut.rank++] = blocks[d];
    if (d == axis) cut.dims[cut.rank++] = block;
  }
  const NodeId x = b.Reshape(b.Cast(c.In(0), DType::kF32), cut);
  const NodeId all = b.Reshape(b.Cast(c.In(1), DType::kF32), Shape{});
  NodeId scale = b.Reduce(ir::ReduceKind::kMax, b.Unary(TapeOp::kAbs, x), {axis + 1}, true);
  const NarrowCodes fp8 = *NarrowTypeOf(onnx::TensorProto::FLOAT8E4M3FN),
                    fp4 = *NarrowTypeOf(onnx::TensorProto::FLOAT4E2M1);
  scale = RoundedTo(b, b.Div(b.BinaryScalar(TapeOp::kDiv, scale, 6), all), fp8);
  const NodeId whole = b.Mul(scale, all), none = b.Scalar(DType::kF32, 0);
  NodeId y = RoundedTo(b, b.Div(x, whole), fp4);
  y = b.Reshape(b.Select(b.Binary(TapeOp::kEqual, whole, none), none, y), shape);
  c.SetValue(0, NarrowValue(b, y, fp4));
  c.SetValue(1, NarrowValue(b, b.Reshape(scale, blocks), fp8));
  return Status::Ok();
}

// Nothing is folded into a weight until its readers are known.
Status DequantizeLinear(OpContext& c) {
  if (IsPower(c, 0))
    return Status::Error(Code::kUnsupported, "input 0 of type FLOAT8E8M0: a Cast reads its numbers");
  if (IsPower(c, 1) && c.Int("output_dtype", 0) == 0)
    return Status::Error(Code::kUnsupported,
                         "scales of FLOAT8E8M0 without output_dtype, which would make the numbers of that "
                         "type: export the model with output_dtype FLOAT (1), FLOAT16 (10) or BFLOAT16 (16)");
  RONDO_ASSIGN_OR_RETURN(const NodeId packed, DequantisedWeight(c));
  if (packed != kNoNode) {
    return c.Give(packed);
  }
  const bool real = c.InValue(0).bits != 0 && c.dtype(0) == DType::kF32;  // FP8, FP4
  if (!real) RONDO_RETURN_IF_ERROR(c.RequireInteger(0));
  RONDO_RETURN_IF_ERROR(c.RequireFloat(1));
  const bool weight = c.rank(0) >= 2;
  RONDO_ASSIGN_OR_RETURN(NodeId scale, Spread(c, 1));
  scale = Widen(c.b, scale);
  DType type = c.dtype(1);
  if (c.Int("output_dtype", 0) != 0) {
    RONDO_ASSIGN_OR_RETURN(type, onnx::DTypeOf(static_cast<int>(c.Int("output_dtype", 0))));
    if (!IsFloat(type)) return Status::Error(Code::kUnsupported, "dequantisation to %s", Name(type));
  }
  const DType exact = real || Narrow(c.dtype(0)) ? DType::kF32 : DType::kI32;  // holds differences
  NodeId zero = kNoNode;
  if (c.Has(2)) {
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 2));
    RONDO_ASSIGN_OR_RETURN(zero, Spread(c, 2));
    zero = c.b.Cast(zero, exact);
    std::vector<double> zeros;  // for FP8 and FP4 they only select the type
    const bool known = real && c.b.ConstantFloats(zero, &zeros);
    if (known && std::all_of(zeros.begin(), zeros.end(), [](double z) { return z == 0; })) zero = kNoNode;
  }
  c.b.FoldConstants(!weight);
  NodeId x = c.b.Cast(c.In(0), exact);
  if (zero != kNoNode) x = c.b.Sub(x, zero);
  c.Set(0, c.b.Cast(c.b.Mul(c.b.Cast(x, c.b.dtype(scale)), scale), type));
  c.b.FoldConstants(true);
  return Status::Ok();
}

Status DynamicQuantizeLinear(OpContext& c) {
  if (c.dtype(0) != DType::kF32 || c.shape(0).elements() == 0) {
    return Status::Error(Code::kCorrupt, "input 0 is not an f32 tensor with elements");
  }
  const DynamicallyQuantised x = QuantiseDynamically(c.b, c.In(0));
  c.Set(0, x.numbers);
  c.Set(1, x.scale);
  c.Set(2, x.zero);
  return Status::Ok();
}

constexpr OpRow kOps[] = {
    {"QuantizeLinear", 2, QuantizeLinear, 1, kLatest, "", false, true},
    {"DequantizeLinear", 2, DequantizeLinear, 1, kLatest, "", false, true},
    {"QuantizeLinear", 2, QuantizeLinear, 1, kLatest, "com.microsoft", false, true},
    {"DequantizeLinear", 2, DequantizeLinear, 1, kLatest, "com.microsoft", false, true},
    {"DynamicQuantizeLinear", 1, DynamicQuantizeLinear},
    // The names in vendors' tools: TensorRT's Model Optimizer, Quark, and formerly Vitis.
    {"QuantizeLinear", 2, QuantizeLinear, 1, kLatest, "trt", false, true},
    {"DequantizeLinear", 2, DequantizeLinear, 1, kLatest, "trt", false, true},
    {"TRT_FP8QuantizeLinear", 2, QuantizeTensorRt<onnx::TensorProto::FLOAT8E4M3FN>, 1, kLatest, "trt", false,
     true},
    {"TRT_FP8DequantizeLinear", 2, DequantizeLinear, 1, kLatest, "trt", false, true},
    {"TRT_INT4QuantizeLinear", 2, QuantizeTensorRt<onnx::TensorProto::INT4>, 1, kLatest, "trt", false, true},
    {"TRT_INT4DequantizeLinear", 2, DequantizeLinear, 1, kLatest, "trt", false, true},
    {"TRT_FP4DynamicQuantize", 2, DynamicQuantizeFp4, 1, kLatest, "trt"},
    {"ExtendedQuantizeLinear", 2, QuantizeLinear, 1, kLatest, "com.amd.quark", false, true},
    {"ExtendedDequantizeLinear", 2, DequantizeLinear, 1, kLatest, "com.amd.quark", false, true},
    {"VitisQuantizeLinear", 2, QuantizeLinear, 1, kLatest, "com.vai.quantize", false, true},
    {"VitisDequantizeLinear", 2, DequantizeLinear, 1, kLatest, "com.vai.quantize", false, true},
};

}  // namespace

Span<const OpRow> QuantisationOps() { return kOps; }

}  // namespace rondo::importer
