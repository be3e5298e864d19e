// Elementwise operators: arithmetic, comparison, logic, casts.
#include <cmath>

#include "compiler/import/decompose.h"
#include "compiler/import/narrow_weight.h"
#include "compiler/import/packed_weight.h"
#include "compiler/import/registry.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {
namespace {

enum class Types { kAny, kFloat, kNumber, kInteger, kBool };

Status Require(const OpContext& c, int i, Types types) {
  DType t = c.dtype(i);
  bool ok = true;
  switch (types) {
    case Types::kAny: break;
    case Types::kFloat: ok = IsFloat(t); break;
    case Types::kNumber: ok = t != DType::kBool; break;
    case Types::kInteger: ok = !IsFloat(t) && t != DType::kBool; break;
    case Types::kBool: ok = t == DType::kBool; break;
  }
  if (ok) return Status::Ok();
  return Status::Error(Code::kCorrupt, "input %d has type %s, which the operator does not take", i, Name(t));
}

template <TapeOp kOp, Types kTypes>
Status Unary(OpContext& c) {
  RONDO_RETURN_IF_ERROR(Require(c, 0, kTypes));
  return c.Give(c.b.Unary(kOp, c.In(0)));
}

template <Types kTypes>
Status CheckBinary(OpContext& c) {
  RONDO_RETURN_IF_ERROR(Require(c, 0, kTypes));
  RONDO_RETURN_IF_ERROR(c.RequireSameType(0, 1));
  return c.Broadcast(c.shape(0), c.shape(1)).status();
}

template <TapeOp kOp, Types kTypes>
Status Binary(OpContext& c) {
  RONDO_RETURN_IF_ERROR(CheckBinary<kTypes>(c));
  return c.Give(c.b.Binary(kOp, c.In(0), c.In(1)));
}

// a > b is b < a.
template <TapeOp kOp>
Status Swapped(OpContext& c) {
  RONDO_RETURN_IF_ERROR(CheckBinary<Types::kNumber>(c));
  return c.Give(c.b.Binary(kOp, c.In(1), c.In(0)));
}

Status Mod(OpContext& c) {
  RONDO_RETURN_IF_ERROR(CheckBinary<Types::kNumber>(c));
  return c.Give(c.b.Binary(c.Int("fmod", 0) != 0 ? TapeOp::kFmod : TapeOp::kMod, c.In(0), c.In(1)));
}

Status BitShift(OpContext& c) {
  RONDO_RETURN_IF_ERROR(CheckBinary<Types::kInteger>(c));
  std::string direction = c.String("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return Status::Error(Code::kCorrupt, "direction \"%.20s\" is neither LEFT nor RIGHT", direction.c_str());
  }
  ir::Builder& b = c.b;
  const DType type = c.dtype(0);
  const bool has_sign =
      type == DType::kI8 || type == DType::kI16 || type == DType::kI32 || type == DType::kI64;
  if (direction == "LEFT" || !has_sign) {
    return c.Give(b.Binary(direction == "LEFT" ? TapeOp::kShl : TapeOp::kShr, c.In(0), c.In(1)));
  }
  // The sign is shifted in: for a negative number, the complement is shifted. A shift beyond the width leaves
  // only the sign.
  const NodeId zero = b.Scalar(type, 0), minus_one = b.Scalar(type, -1);
  const double last = static_cast<double>(8 * ByteSize(type) - 1);
  NodeId by = b.Select(b.Binary(TapeOp::kLess, c.In(1), zero), b.Scalar(type, last), c.In(1));
  by = b.BinaryScalar(TapeOp::kMin, by, last);
  const NodeId negative = b.Binary(TapeOp::kLess, c.In(0), zero);
  const NodeId all = b.Binary(TapeOp::kShr, b.Select(negative, b.Sub(minus_one, c.In(0)), c.In(0)), by);
  return c.Give(b.Select(negative, b.Sub(minus_one, all), all));
}

// The same bytes as another type of equal width: integers, and constants known now.
Status BitCast(OpContext& c) {
  RONDO_ASSIGN_OR_RETURN(DType to, onnx::DTypeOf(static_cast<int>(c.Int("to", 0))));
  const DType from = c.dtype(0);
  if (ByteSize(from) != ByteSize(to)) {
    return Status::Error(Code::kCorrupt, "numbers of %s as those of %s, which are of another width",
                         Name(from), Name(to));
  }
  const auto data = EvaluateConstant(c.b.graph(), c.In(0));
  if (data.ok() && to != DType::kBool) {
    std::vector<uint8_t> bytes((*data)->bytes.begin(), (*data)->bytes.end());
    return c.Give(c.b.Constant(ir::ConstantData::Own(to, c.shape(0), std::move(bytes))));
  }
  if (from != to && (IsFloat(from) || IsFloat(to) || to == DType::kBool)) {
    return Status::Error(Code::kUnsupported,
                         "the bits of %s as %s, in numbers that only a run knows: rondo knows that of whole "
                         "numbers; export the model with Cast, or with other arithmetic",
                         Name(from), Name(to));
  }
  return c.Give(c.b.Cast(c.In(0), to));
}

// Any number of inputs, reduced from the left.
template <TapeOp kOp>
Status Variadic(OpContext& c) {
  NodeId result = c.In(0);
  RONDO_RETURN_IF_ERROR(Require(c, 0, Types::kNumber));
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (!c.Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
    RONDO_RETURN_IF_ERROR(c.Broadcast(c.b.shape(result), c.shape(i)).status());
    result = c.b.Binary(kOp, result, c.In(i));
  }
  return c.Give(result);
}

Status MeanOf(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  NodeId sum = Widen(c.b, c.In(0));
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (!c.Has(i)) return Status::Error(Code::kCorrupt, "input %d is missing", i);
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
    RONDO_RETURN_IF_ERROR(c.Broadcast(c.b.shape(sum), c.shape(i)).status());
    sum = c.b.Add(sum, Widen(c.b, c.In(i)));
  }
  return c.Give(c.b.Cast(c.b.BinaryScalar(TapeOp::kDiv, sum, c.num_inputs()), c.dtype(0)));
}

// The value of a constant with one element; false for anything else.
bool OneValue(OpContext& c, int i, double* value) {
  std::vector<double> values;
  if (c.shape(i).elements() != 1) return false;
  if (IsFloat(c.dtype(i))) {
    if (!c.b.ConstantFloats(c.In(i), &values)) return false;
    *value = values[0];
    return true;
  }
  std::vector<int64_t> ints;
  if (!c.b.ConstantInts(c.In(i), &ints)) return false;
  *value = static_cast<double>(ints[0]);
  return true;
}

// x to a constant power by one or two multiplications, or a division; kNoNode for other exponents. The pass
// `simplify` handles roots, which differ at -0 and -inf.
NodeId SimplePower(ir::Builder& b, NodeId x, double exponent) {
  if (exponent == 1) return x;
  if (exponent == 2) return b.Mul(x, x);
  if (exponent == 3) return b.Mul(b.Mul(x, x), x);
  if (!IsFloat(b.dtype(x))) return kNoNode;
  if (exponent == -1) return b.Unary(TapeOp::kReciprocal, x);
  return kNoNode;
}

Status Pow(OpContext& c) {
  RONDO_RETURN_IF_ERROR(Require(c, 0, Types::kNumber));
  RONDO_RETURN_IF_ERROR(Require(c, 1, Types::kNumber));
  RONDO_ASSIGN_OR_RETURN(Shape shape, c.Broadcast(c.shape(0), c.shape(1)));
  double exponent = 0;
  if (shape == c.shape(0) && OneValue(c, 1, &exponent)) {
    if (NodeId simple = SimplePower(c.b, c.In(0), exponent); simple != kNoNode) {
      return c.Give(simple);
    }
  }
  DType type = c.dtype(0);
  NodeId x = c.In(0), y = c.In(1);
  if (!IsFloat(type) && IsFloat(c.dtype(1))) {
    x = c.b.Cast(x, c.dtype(1));  // an integer to a float power is computed as float
  } else {
    y = c.b.Cast(y, type);
  }
  return c.Give(c.b.Cast(c.b.Binary(TapeOp::kPow, x, y), type));
}

Status Where(OpContext& c) {
  RONDO_RETURN_IF_ERROR(Require(c, 0, Types::kBool));
  RONDO_RETURN_IF_ERROR(c.RequireSameType(1, 2));
  RONDO_ASSIGN_OR_RETURN(Shape both, c.Broadcast(c.shape(1), c.shape(2)));
  RONDO_RETURN_IF_ERROR(c.Broadcast(c.shape(0), both).status());
  return c.Give(c.b.Select(c.In(0), c.In(1), c.In(2)));
}

Status Clip(OpContext& c) {
  RONDO_RETURN_IF_ERROR(Require(c, 0, Types::kNumber));
  NodeId x = c.In(0);
  const TapeOp ops[] = {TapeOp::kMax, TapeOp::kMin};
  for (int i = 1; i <= 2; ++i) {
    if (!c.Has(i)) continue;
    RONDO_RETURN_IF_ERROR(c.RequireSameType(0, i));
    if (c.shape(i).elements() != 1) {
      return Status::Error(Code::kCorrupt, "limit %s is not a scalar", Text(c.shape(i)).c_str());
    }
    x = c.b.Binary(ops[i - 1], x, c.b.Reshape(c.In(i), Shape{}));
  }
  return c.Give(x);
}

Status IsInf(OpContext& c) {
  RONDO_RETURN_IF_ERROR(c.RequireFloat(0));
  int64_t mask = (c.Int("detect_positive", 1) != 0 ? 1 : 0) | (c.Int("detect_negative", 1) != 0 ? 2 : 0);
  return c.Give(c.b.Unary(TapeOp::kIsInf, c.In(0), mask));
}

Result<PowerRounding> ReadPowerRounding(const OpContext& c) {
  const std::string mode = c.String("round_mode", "up");
  if (mode == "up") return PowerRounding::kUp;
  if (mode == "down") return PowerRounding::kDown;
  if (mode == "nearest") return PowerRounding::kNearest;
  return Status::Error(Code::kCorrupt, "round_mode \"%.40s\": up, down or nearest is needed", mode.c_str());
}

Status CastTo(OpContext& c, int type) {
  const std::optional<NarrowCodes> narrow = NarrowTypeOf(type);
  if (narrow && IsReal(*narrow) && c.dtype(0) != DType::kBool) {
    const NodeId x = c.b.Cast(c.In(0), DType::kF32);
    const bool saturates = c.Int("saturate", 1) != 0;
    NodeId y = kNoNode;
    if (narrow->is_power) {
      RONDO_ASSIGN_OR_RETURN(const PowerRounding mode, ReadPowerRounding(c));
      y = RoundedToPower(c.b, x, mode, saturates);
    } else {
      y = RoundedTo(c.b, x, *narrow, saturates);
    }
    c.SetValue(0, NarrowValue(c.b, y, *narrow));
    return Status::Ok();
  }
  if (narrow && !IsReal(*narrow)) {
    // The low bits of the integer.
    const NodeId codes =
        c.b.BinaryScalar(TapeOp::kBitAnd, c.b.Cast(c.In(0), DType::kI32), (1 << narrow->bits) - 1);
    c.SetValue(0, NarrowValue(c.b, NumbersOf(c.b, c.b.Cast(codes, DType::kU8), *narrow), *narrow));
    return Status::Ok();
  }
  RONDO_ASSIGN_OR_RETURN(DType to, onnx::DTypeOf(type));
  RONDO_ASSIGN_OR_RETURN(const NodeId packed, CastWeight(c, to));
  if (packed != kNoNode) {
    return c.Give(packed);
  }
  return c.Give(c.b.Cast(c.In(0), to));
}

Status Cast(OpContext& c) { return CastTo(c, static_cast<int>(c.Int("to", 0))); }

Status CastLike(OpContext& c) {
  const NarrowCodes* narrow = c.InValue(1).narrow.get();
  return CastTo(c, narrow != nullptr ? DataTypeOf(*narrow) : onnx::DataTypeOf(c.dtype(1)));
}

constexpr OpRow kOps[] = {
    {"Add", 2, Binary<TapeOp::kAdd, Types::kNumber>},
    {"Sub", 2, Binary<TapeOp::kSub, Types::kNumber>},
    {"Mul", 2, Binary<TapeOp::kMul, Types::kNumber>},
    {"Div", 2, Binary<TapeOp::kDiv, Types::kNumber>},
    {"Mod", 2, Mod},
    {"Pow", 2, Pow},
    {"Min", 1, Variadic<TapeOp::kMin>},
    {"Max", 1, Variadic<TapeOp::kMax>},
    {"Sum", 1, Variadic<TapeOp::kAdd>},
    {"Mean", 1, MeanOf},
    {"Equal", 2, Binary<TapeOp::kEqual, Types::kAny>},
    {"Less", 2, Binary<TapeOp::kLess, Types::kNumber>},
    {"LessOrEqual", 2, Binary<TapeOp::kLessEqual, Types::kNumber>},
    {"Greater", 2, Swapped<TapeOp::kLess>},
    {"GreaterOrEqual", 2, Swapped<TapeOp::kLessEqual>},
    {"And", 2, Binary<TapeOp::kBitAnd, Types::kBool>},
    {"Or", 2, Binary<TapeOp::kBitOr, Types::kBool>},
    {"Xor", 2, Binary<TapeOp::kBitXor, Types::kBool>},
    {"Not", 1, Unary<TapeOp::kNot, Types::kBool>},
    {"BitwiseAnd", 2, Binary<TapeOp::kBitAnd, Types::kInteger>},
    {"BitwiseOr", 2, Binary<TapeOp::kBitOr, Types::kInteger>},
    {"BitwiseXor", 2, Binary<TapeOp::kBitXor, Types::kInteger>},
    {"BitwiseNot", 1, Unary<TapeOp::kBitNot, Types::kInteger>},
    {"BitShift", 2, BitShift},
    {"BitCast", 1, BitCast, 26},
    {"Where", 3, Where},
    {"Clip", 1, Clip},
    {"Abs", 1, Unary<TapeOp::kAbs, Types::kNumber>},
    {"Neg", 1, Unary<TapeOp::kNeg, Types::kNumber>},
    {"Sign", 1, Unary<TapeOp::kSign, Types::kNumber>},
    {"Floor", 1, Unary<TapeOp::kFloor, Types::kFloat>},
    {"Ceil", 1, Unary<TapeOp::kCeil, Types::kFloat>},
    {"Round", 1, Unary<TapeOp::kRound, Types::kFloat>},
    {"Sqrt", 1, Unary<TapeOp::kSqrt, Types::kFloat>},
    {"Reciprocal", 1, Unary<TapeOp::kReciprocal, Types::kFloat>},
    {"Exp", 1, Unary<TapeOp::kExp, Types::kFloat>},
    {"Log", 1, Unary<TapeOp::kLog, Types::kFloat>},
    {"Sin", 1, Unary<TapeOp::kSin, Types::kFloat>},
    {"Cos", 1, Unary<TapeOp::kCos, Types::kFloat>},
    {"Tan", 1, Unary<TapeOp::kTan, Types::kFloat>},
    {"Asin", 1, Unary<TapeOp::kAsin, Types::kFloat>},
    {"Acos", 1, Unary<TapeOp::kAcos, Types::kFloat>},
    {"Atan", 1, Unary<TapeOp::kAtan, Types::kFloat>},
    {"Sinh", 1, Unary<TapeOp::kSinh, Types::kFloat>},
    {"Cosh", 1, Unary<TapeOp::kCosh, Types::kFloat>},
    {"Tanh", 1, Unary<TapeOp::kTanh, Types::kFloat>},
    {"Asinh", 1, Unary<TapeOp::kAsinh, Types::kFloat>},
    {"Acosh", 1, Unary<TapeOp::kAcosh, Types::kFloat>},
    {"Atanh", 1, Unary<TapeOp::kAtanh, Types::kFloat>},
    {"Erf", 1, Unary<TapeOp::kErf, Types::kFloat>},
    {"Sigmoid", 1, Unary<TapeOp::kSigmoid, Types::kFloat>},
    {"IsNaN", 1, Unary<TapeOp::kIsNan, Types::kFloat>},
    {"IsInf", 1, IsInf},
    {"Cast", 1, Cast, 1, kLatest, "", false, true},
    {"CastLike", 2, CastLike, 15, kLatest, "", false, true},
};

}  // namespace

Span<const OpRow> PointwiseOps() { return kOps; }

}  // namespace rondo::importer
