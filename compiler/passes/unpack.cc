#include "compiler/passes/unpack.h"

namespace rondo::passes {

namespace {

using ir::Builder;
using ir::NodeId;
using ir::PackedMatrix;

// [n, k] of codes, as u8 or i32. How bits lie: core/packed_weights.h.
NodeId Codes(Builder& b, const PackedMatrix& matrix) {
  const PackedShape s = matrix.shape();
  const int64_t each = 8 / s.bits, rows = s.tiles() * 16, eights = s.pieces() * 4;
  NodeId x = b.Slice(b.Constant(matrix.codes), 0, 0, 1, s.bytes());
  // tile, piece, g, t, half, row g or g + 8, first or second of a pair, byte
  x = b.Reshape(x, {s.tiles(), s.pieces(), 8, 4, 2, 2, 2, 2});
  x = b.Transpose(x, {0, 5, 2, 1, 4, 7, 3, 6});
  if (each > 1) {
    x = b.Expand(b.Reshape(x, {rows, eights, 1, 8}), {rows, eights, each, 8});
    std::vector<int64_t> shifts;
    for (int64_t i = 0; i < each; ++i) shifts.push_back(i * s.bits);
    x = b.Binary(TapeOp::kShr, b.Cast(x, DType::kI32), b.Ints(DType::kI32, {each, 1}, shifts));
    x = b.BinaryScalar(TapeOp::kBitAnd, x, static_cast<double>((1 << s.bits) - 1));
  }
  x = b.Reshape(x, {rows, s.pieces() * s.piece()});
  return b.Slice(b.Slice(x, 0, 0, 1, s.n), 1, 0, 1, s.k);
}

// Scales or zero points as [n, k] f32.
NodeId Spread(Builder& b, const PackedMatrix& matrix, const std::shared_ptr<const ir::ConstantData>& data) {
  const PackedShape s = matrix.shape();
  NodeId x = b.Slice(b.Constant(data), 0, 0, 1, s.scales());
  x = b.Transpose(b.Reshape(x, {s.tiles(), s.blocks(), 8, 2}), {0, 3, 2, 1});
  x = b.Slice(b.Reshape(x, {s.tiles() * 16, s.blocks(), 1}), 0, 0, 1, s.n);
  const int64_t block = s.blocks() == 1 ? s.k : s.block;
  x = b.Reshape(b.Expand(x, {s.n, s.blocks(), block}), {s.n, s.blocks() * block});
  return b.Cast(b.Slice(x, 1, 0, 1, s.k), DType::kF32);
}

}  // namespace

NodeId Unpack(Builder& b, const PackedMatrix& matrix, DType dtype) {
  NodeId x = Codes(b, matrix);
  if (matrix.type <= PackedType::kU8) {
    x = b.Cast(x, DType::kF32);
  } else {
    std::vector<double> values;
    for (uint32_t code = 0; code < 1u << BitsOf(matrix.type); ++code)
      values.push_back(double{PackedValue(matrix.type, code)});
    const NodeId table = b.Floats(DType::kF32, {static_cast<int64_t>(values.size())}, values);
    x = b.Gather(table, b.Cast(x, DType::kI64), 0, false);
  }
  if (matrix.zeros != nullptr) {
    x = b.Sub(x, Spread(b, matrix, matrix.zeros));
  } else if (matrix.zero != 0) {
    x = b.BinaryScalar(TapeOp::kSub, x, static_cast<double>(matrix.zero));
  }
  return b.Cast(b.Mul(x, Spread(b, matrix, matrix.scales)), dtype);
}

}  // namespace rondo::passes
