#include "compiler/import/narrow_weight.h"

#include <cmath>
#include <vector>

#include "compiler/import/decompose.h"
#include "compiler/import/packed_bits.h"
#include "formats/onnx/tensor.h"

namespace rondo::importer {

std::optional<DType> Fp8Of(PackedType type, bool is_fnuz) {
  if (is_fnuz || (type != PackedType::kE4M3 && type != PackedType::kE5M2)) return std::nullopt;
  return type == PackedType::kE4M3 ? DType::kE4M3 : DType::kE5M2;
}

namespace {

struct NarrowType {
  int data_type, bits;
  bool is_signed;
  PackedType type;
  bool is_fnuz = false, is_power = false;
};
constexpr NarrowType kNarrow[] = {
    {21, 4, false, PackedType::kU4},         {22, 4, true, PackedType::kU4},
    {25, 2, false, PackedType::kU2},         {26, 2, true, PackedType::kU2},
    {17, 8, false, PackedType::kE4M3},       {19, 8, false, PackedType::kE5M2},
    {18, 8, false, PackedType::kE4M3, true}, {20, 8, false, PackedType::kE5M2, true},
    {23, 4, false, PackedType::kE2M1},       {24, 8, false, PackedType::kNone, false, true}};

constexpr int kPowerBias = 127, kPowers = 255;

// x rounded to the type, as f32. The cast keeps infinities if the type has them.
ir::NodeId Fp8Numbers(ir::Builder& b, ir::NodeId x, DType type, bool saturates) {
  const bool infinite = type == DType::kE5M2;
  if (saturates) {
    constexpr double kMost = 57344;  // of E5M2
    if (infinite) x = Clamp(b, x, -kMost, kMost);
  } else {
    // The limit is the middle between the greatest number and the next one, if there were one. The limit
    // itself rounds to the even neighbour.
    const ir::NodeId size = b.Unary(TapeOp::kAbs, x);
    const ir::NodeId limit = b.Scalar(DType::kF32, infinite ? 61440 : 464);
    const ir::NodeId beyond =
        infinite ? b.Binary(TapeOp::kLessEqual, limit, size) : b.Binary(TapeOp::kLess, limit, size);
    ir::NodeId instead = b.Scalar(DType::kF32, infinite ? INFINITY : NAN);
    if (infinite) {
      const ir::NodeId negative = b.Binary(TapeOp::kLess, x, b.Scalar(DType::kF32, 0));
      instead = b.Select(negative, b.Scalar(DType::kF32, -INFINITY), instead);
    }
    x = b.Select(beyond, instead, x);
  }
  return b.Cast(b.Cast(x, type), DType::kF32);
}

// Whether the node is a constant with bytes.
bool IsKnown(ir::Builder& b, ir::NodeId id) {
  const ir::Node& node = b.graph().node(id);
  return node.op == ir::Op::kConstant && !node.As<ir::ConstantAttrs>().data->synthetic;
}

const NarrowType* Find(int data_type) {
  for (const NarrowType& type : kNarrow) {
    if (type.data_type == data_type) return &type;
  }
  return nullptr;
}

}  // namespace

// NaN of each type: in E4M3 all bits set; in E5M2 the last exponent with a nonzero mantissa, which without
// one is infinite; in FNUZ types only the code of -0.
double NumberOf(const NarrowCodes& narrow, uint32_t code) {
  const PackedType type = narrow.type;
  const uint32_t rest = code & 0x7f;
  if (narrow.is_power) return code == kPowers ? NAN : std::ldexp(1.0, static_cast<int>(code) - kPowerBias);
  if (narrow.is_fnuz) return code == 0x80 ? NAN : double{PackedValue(type, code)} / 2;
  if (type == PackedType::kE4M3 && rest == 0x7f) return NAN;
  if (type == PackedType::kE5M2 && rest >= 0x7c)
    return rest > 0x7c ? NAN : code > 0x7f ? -INFINITY : INFINITY;
  return double{PackedValue(type, code)};
}

int NarrowBits(int data_type) {
  const NarrowType* type = Find(data_type);
  return type == nullptr ? 0 : type->bits;
}

Result<PackedTensor> PackedBytesOf(const onnx::TensorProto& tensor) {
  const NarrowType& type = *Find(tensor.data_type());
  PackedTensor packed;
  packed.bytes = tensor;
  packed.bits = type.bits;
  packed.is_signed = type.is_signed;
  packed.type = type.type;
  packed.is_fnuz = type.is_fnuz;
  packed.is_power = type.is_power;
  RONDO_ASSIGN_OR_RETURN(packed.shape, onnx::ShapeOf(tensor, DType::kU8));
  packed.bytes.set_data_type(onnx::TensorProto::UINT8);
  packed.bytes.clear_dims();
  packed.bytes.add_dims((packed.shape.elements() * type.bits + 7) / 8);
  return packed;
}

ir::NodeId Widened(ir::Builder& b, ir::NodeId bytes, const PackedTensor& packed) {
  const int64_t count = packed.shape.elements();
  if (count == 0) {
    const bool real = packed.type > PackedType::kU8 || packed.is_power;
    const DType dtype = real ? DType::kF32 : packed.is_signed ? DType::kI8 : DType::kU8;
    return b.Constant(ir::ConstantData::Own(dtype, packed.shape, {}));
  }
  ir::NodeId x = b.Reshape(b.Slice(UnpackBits(b, bytes, packed.bits), 0, 0, 1, count), packed.shape);
  if (const std::optional<DType> fp8 = Fp8Of(packed.type, packed.is_fnuz); fp8 && IsKnown(b, bytes)) {
    const ir::ConstantData& codes = *b.graph().node(bytes).As<ir::ConstantAttrs>().data;
    auto numbers = std::make_shared<ir::ConstantData>(codes);
    numbers->dtype = *fp8;
    numbers->shape = packed.shape;
    b.FoldConstants(packed.shape.rank < 2);  // readers may take a weight in its FP8 form
    const ir::NodeId wide = b.Cast(b.Constant(std::move(numbers)), DType::kF32);
    b.FoldConstants(true);
    return wide;
  }
  return NumbersOf(
      b, x,
      {nullptr, packed.shape, packed.bits, packed.is_signed, packed.type, packed.is_fnuz, packed.is_power});
}

ir::NodeId NumbersOf(ir::Builder& b, ir::NodeId codes, const NarrowCodes& type) {
  if (IsReal(type)) {
    std::vector<double> numbers;
    for (uint32_t code = 0; code < 1u << type.bits; ++code) numbers.push_back(NumberOf(type, code));
    const ir::NodeId table = b.Floats(DType::kF32, {static_cast<int64_t>(numbers.size())}, numbers);
    return b.Gather(table, b.Cast(codes, DType::kI64), 0, false);
  }
  if (!type.is_signed) return codes;
  // The sign bit has negative weight.
  const double sign = static_cast<double>(1 << (type.bits - 1));
  const ir::NodeId x = b.BinaryScalar(TapeOp::kBitXor, b.Cast(codes, DType::kI32), sign);
  return b.Cast(b.BinaryScalar(TapeOp::kSub, x, sign), DType::kI8);
}

ir::NodeId RowsOfBytes(ir::Builder& b, const NarrowCodes& codes) {
  if (codes.data == nullptr || codes.shape.rank == 0) return ir::kNoNode;
  Shape bytes = codes.shape;
  int64_t& row = bytes[bytes.rank - 1];
  if (row * codes.bits % 8 != 0) return ir::kNoNode;
  row = row * codes.bits / 8;
  auto data = std::make_shared<ir::ConstantData>(*codes.data);
  data->shape = bytes;
  return b.Constant(std::move(data));
}

std::optional<NarrowCodes> NarrowTypeOf(int data_type) {
  const NarrowType* type = Find(data_type);
  if (type == nullptr) return std::nullopt;
  return NarrowCodes{nullptr,    Shape{},       type->bits,    type->is_signed,
                     type->type, type->is_fnuz, type->is_power};
}

int DataTypeOf(const NarrowCodes& type) {
  for (const NarrowType& one : kNarrow) {
    if (one.bits == type.bits && one.type == type.type && one.is_signed == type.is_signed &&
        one.is_fnuz == type.is_fnuz && one.is_power == type.is_power)
      return one.data_type;
  }
  return 0;
}

// Rounds to multiples of a unit that doubles with every power of two from the least one on. The unit is a
// power of two made from integers, because no function is exact. If the logarithm is off by one, x is next to
// a power of two, and either unit rounds x to it.
ir::NodeId RoundedTo(ir::Builder& b, ir::NodeId x, const NarrowCodes& narrow, bool saturates) {
  if (narrow.is_power) return RoundedToPower(b, x, PowerRounding::kUp, saturates);
  if (const std::optional<DType> fp8 = Fp8Of(narrow.type, narrow.is_fnuz))
    return Fp8Numbers(b, x, *fp8, saturates);
  struct Grid {
    int mantissa, least, powers;  // bits; the exponent of the least normal number; how many exponents
    double most;
  };
  Grid grid{1, 0, 3, 6};
  if (narrow.type == PackedType::kE4M3) grid = narrow.is_fnuz ? Grid{3, -7, 15, 240} : Grid{3, -6, 15, 448};
  if (narrow.type == PackedType::kE5M2)
    grid = narrow.is_fnuz ? Grid{2, -15, 31, 57344} : Grid{2, -14, 30, 57344};
  ir::NodeId power = b.Unary(TapeOp::kLog, b.Unary(TapeOp::kAbs, x));
  power = b.Unary(TapeOp::kFloor, b.BinaryScalar(TapeOp::kMul, power, 1 / std::log(2.0)));
  power = Clamp(b, b.BinaryScalar(TapeOp::kSub, power, grid.least), 0, grid.powers - 1);
  const ir::NodeId one = b.Scalar(DType::kI64, 1);
  ir::NodeId unit = b.Cast(b.Binary(TapeOp::kShl, one, b.Cast(power, DType::kI64)), DType::kF32);
  unit = b.BinaryScalar(TapeOp::kMul, unit, std::ldexp(1.0, grid.least - grid.mantissa));
  const ir::NodeId y = b.Mul(b.Unary(TapeOp::kRound, b.Div(x, unit)), unit);
  if (saturates) return Clamp(b, y, -grid.most, grid.most);
  const ir::NodeId beyond =
      b.Binary(TapeOp::kLess, b.Scalar(DType::kF32, grid.most), b.Unary(TapeOp::kAbs, y));
  const bool infinite = narrow.type == PackedType::kE5M2 && !narrow.is_fnuz;
  ir::NodeId instead = b.Scalar(DType::kF32, infinite ? INFINITY : NAN);
  if (infinite) {
    const ir::NodeId negative = b.Binary(TapeOp::kLess, y, b.Scalar(DType::kF32, 0));
    instead = b.Select(negative, b.Scalar(DType::kF32, -INFINITY), instead);
  }
  return b.Select(beyond, instead, y);
}

// Finds the power below x by its logarithm, which may be off by one, and corrects it by comparing.
ir::NodeId RoundedToPower(ir::Builder& b, ir::NodeId x, PowerRounding mode, bool saturates) {
  std::vector<double> powers;
  for (int i = 0; i < kPowers; ++i) powers.push_back(std::ldexp(1.0, i - kPowerBias));
  const ir::NodeId table = b.Floats(DType::kF32, {kPowers}, powers);
  const auto number = [&](double value) { return b.Scalar(DType::kF32, value); };
  const auto at = [&](ir::NodeId i) {
    return b.Gather(table, b.Cast(Clamp(b, i, 0, kPowers - 1), DType::kI64), 0, false);
  };
  const auto one_if = [&](ir::NodeId condition) { return b.Select(condition, number(1), number(0)); };
  const auto twice = [&](ir::NodeId y) { return b.BinaryScalar(TapeOp::kMul, y, 2); };
  const ir::NodeId least = number(powers.front()), most = number(powers.back());
  const ir::NodeId above = b.Binary(TapeOp::kLess, least, x), beyond = b.Binary(TapeOp::kLess, most, x);
  const ir::NodeId y = b.Select(beyond, most, b.Select(above, x, least));
  ir::NodeId i = b.BinaryScalar(TapeOp::kMul, b.Unary(TapeOp::kLog, y), 1 / std::log(2.0));
  i = b.BinaryScalar(TapeOp::kAdd, b.Unary(TapeOp::kFloor, i), kPowerBias);
  i = Clamp(b, i, 0, kPowers - 1);
  ir::NodeId power = at(i);
  i = b.Sub(i, one_if(b.Binary(TapeOp::kLess, y, power)));
  i = b.Add(i, one_if(b.Binary(TapeOp::kLessEqual, twice(power), y)));
  power = at(i);
  if (mode == PowerRounding::kUp) power = b.Select(b.Binary(TapeOp::kLess, power, y), twice(power), power);
  if (mode == PowerRounding::kNearest) {
    const ir::NodeId middle = b.BinaryScalar(TapeOp::kMul, power, 1.5);
    power = b.Select(b.Binary(TapeOp::kLessEqual, middle, y), twice(power), power);
  }
  ir::NodeId none = b.Unary(TapeOp::kIsNan, x);
  if (!saturates) {
    const ir::NodeId below = b.Binary(TapeOp::kLess, x, least);
    none = b.Binary(TapeOp::kBitOr, none, b.Binary(TapeOp::kBitOr, below, beyond));
  }
  return b.Select(none, number(NAN), power);
}

namespace {

// The codes (i64) of numbers [n] that the float type can represent: the first code of each number.
ir::NodeId CodesOf(ir::Builder& b, ir::NodeId numbers, const NarrowCodes& type) {
  const int64_t codes = int64_t{1} << type.bits;
  std::vector<double> table;
  double none = -1,
         negative_zero = 0;  // codes of NaN and of -0; a type without NaN takes -0 for it
  for (uint32_t code = 0; code < codes; ++code) {
    table.push_back(NumberOf(type, code));
    if (std::isnan(table.back())) none = code;
    if (table.back() == 0 && std::signbit(table.back())) negative_zero = code;
  }
  if (none < 0) none = negative_zero;
  const ir::NodeId equal =
      b.Binary(TapeOp::kEqual, b.Unsqueeze(numbers, 1), b.Floats(DType::kF32, {codes}, table));
  ir::NodeId code = b.Squeeze(b.Reduce(ir::ReduceKind::kArgMax, b.Cast(equal, DType::kI32), {1}, true), 1);
  const ir::NodeId below =
      b.Binary(TapeOp::kLess, b.Unary(TapeOp::kReciprocal, numbers), b.Scalar(DType::kF32, 0));
  const ir::NodeId zero = b.Binary(TapeOp::kEqual, numbers, b.Scalar(DType::kF32, 0));
  code = b.Select(b.Binary(TapeOp::kBitAnd, zero, below), b.Scalar(DType::kI64, negative_zero), code);
  return b.Select(b.Unary(TapeOp::kIsNan, numbers), b.Scalar(DType::kI64, none), code);
}

}  // namespace

Value FromPort(ir::Builder& b, ir::NodeId port, int data_type, const Shape& shape) {
  const NarrowCodes type = *NarrowTypeOf(data_type);
  if (Fp8Of(type.type, type.is_fnuz)) return NarrowValue(b, b.Cast(port, DType::kF32), type);
  PackedTensor packed;
  packed.shape = shape;
  packed.bits = type.bits;
  packed.is_signed = type.is_signed;
  packed.type = type.type;
  packed.is_fnuz = type.is_fnuz;
  packed.is_power = type.is_power;
  return NarrowValue(b, Widened(b, b.Reshape(port, {b.shape(port).elements()}), packed), type);
}

ir::NodeId ToPort(ir::Builder& b, const Value& value) {
  const NarrowCodes& type = *value.narrow;
  if (const std::optional<DType> fp8 = Fp8Of(type.type, type.is_fnuz)) return b.Cast(value.node, *fp8);
  const Shape shape = b.shape(value.node);
  if (shape.elements() == 0)
    return b.Constant(ir::ConstantData::Own(DType::kU8, type.bits == 8 ? shape : Shape{0}, {}));
  ir::NodeId codes = b.Reshape(value.node, {shape.elements()});
  codes = IsReal(type) ? CodesOf(b, codes, type)
                       : b.BinaryScalar(TapeOp::kBitAnd, b.Cast(codes, DType::kI64), (1 << type.bits) - 1);
  if (type.bits == 8) return b.Cast(b.Reshape(codes, shape), DType::kU8);
  const int64_t each = 8 / type.bits, missing = (each - shape.elements() % each) % each;
  if (missing != 0) codes = b.PadConstant(codes, b.Scalar(DType::kI64, 0), {0}, {missing});
  return PackBits(b, codes, type.bits);
}

Value NarrowValue(ir::Builder& b, ir::NodeId numbers, NarrowCodes type) {
  type.data = nullptr;
  type.shape = b.shape(numbers);
  Value value{numbers, false, {}};
  value.bits = type.bits;
  value.narrow = std::make_shared<NarrowCodes>(std::move(type));
  return value;
}

}  // namespace rondo::importer
