#include "compiler/ir/unsigned.h"

namespace rondo::ir {

namespace {

constexpr double kHighestBit = -0x1p63;

NodeId Bits(Builder& b, NodeId x) { return b.Cast(x, DType::kI64); }

// a < b, of the bits of u64.
NodeId Less(Builder& b, NodeId x, NodeId y) {
  return b.Binary(TapeOp::kLess, b.BinaryScalar(TapeOp::kBitXor, x, kHighestBit),
                  b.BinaryScalar(TapeOp::kBitXor, y, kHighestBit));
}

// The quotient of bits; 0 if y is 0. Half of x is not negative, so its quotient is right if y is not
// negative: twice that is the result, or one less. If y is 2^63 or more, the result is 0 or 1.
NodeId Quotient(Builder& b, NodeId x, NodeId y) {
  const NodeId half = b.Div(b.BinaryScalar(TapeOp::kShr, x, 1), y);
  const NodeId least =
      b.Select(b.BinaryScalar(TapeOp::kLess, y, 0), b.Scalar(DType::kI64, 0), b.Add(half, half));
  const NodeId rest = b.Sub(x, b.Mul(least, y));
  const NodeId once_more = Less(b, b.BinaryScalar(TapeOp::kSub, y, 1), rest);  // 0 - 1 is the greatest number
  return b.Add(least, b.Cast(once_more, DType::kI64));
}

NodeId Remainder(Builder& b, NodeId x, NodeId y) {
  const NodeId rest = b.Sub(x, b.Mul(Quotient(b, x, y), y));
  const NodeId zero = b.Scalar(DType::kI64, 0);
  return b.Select(b.Binary(TapeOp::kEqual, y, zero), zero, rest);
}

// Of a number of 2^63 or more, half is converted. The bit that is lost stays as the lowest, so that the half
// is rounded as the number would be.
NodeId ToFloat(Builder& b, NodeId x, DType to) {
  const DType wide = to == DType::kF64 ? DType::kF64 : DType::kF32;
  const NodeId odd = b.BinaryScalar(TapeOp::kBitAnd, x, 1);
  const NodeId half = b.Cast(b.Binary(TapeOp::kBitOr, b.BinaryScalar(TapeOp::kShr, x, 1), odd), wide);
  const NodeId number = b.Select(b.BinaryScalar(TapeOp::kLess, x, 0), b.Add(half, half), b.Cast(x, wide));
  return b.Cast(number, to);
}

// x to the power y, whose half is not negative.
NodeId Power(Builder& b, NodeId x, NodeId y) {
  const NodeId root = b.Binary(TapeOp::kPow, x, b.BinaryScalar(TapeOp::kShr, y, 1));
  const NodeId odd = b.Cast(b.BinaryScalar(TapeOp::kBitAnd, y, 1), DType::kBool);
  return b.Mul(b.Mul(root, root), b.Select(odd, x, b.Scalar(DType::kI64, 1)));
}

}  // namespace

NodeId ToSignedOrder(Builder& b, NodeId x) {
  return b.BinaryScalar(TapeOp::kBitXor, Bits(b, x), kHighestBit);
}

NodeId FromSignedOrder(Builder& b, NodeId x) {
  return b.Cast(b.BinaryScalar(TapeOp::kBitXor, x, kHighestBit), DType::kU64);
}

NodeId UnsignedPointwise(Builder& b, TapeOp op, DType to, const std::vector<NodeId>& xs) {
  const auto bits = [&](size_t i) { return Bits(b, xs[i]); };
  switch (op) {
    case TapeOp::kAbs: return xs[0];
    case TapeOp::kSign: return b.Cast(b.Cast(xs[0], DType::kBool), DType::kU64);
    case TapeOp::kCast: return IsFloat(to) ? ToFloat(b, bits(0), to) : kNoNode;
    case TapeOp::kLess: return Less(b, bits(0), bits(1));
    case TapeOp::kLessEqual: return b.Unary(TapeOp::kNot, Less(b, bits(1), bits(0)));
    case TapeOp::kMin:
    case TapeOp::kMax:
      return FromSignedOrder(b, b.Binary(op, ToSignedOrder(b, xs[0]), ToSignedOrder(b, xs[1])));
    case TapeOp::kDiv: return b.Cast(Quotient(b, bits(0), bits(1)), to);
    case TapeOp::kMod:
    case TapeOp::kFmod: return b.Cast(Remainder(b, bits(0), bits(1)), to);
    case TapeOp::kPow: return b.Cast(Power(b, bits(0), bits(1)), to);
    default: return kNoNode;
  }
}

}  // namespace rondo::ir
