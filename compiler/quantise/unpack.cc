#include "compiler/quantise/unpack.h"

#include <bit>

namespace rondo::passes {

namespace {

using ir::PackedMatrix;

// The codes as [n, k], u8 or i32. Layout: core/packed_weights.h.
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

// The numbers that codes (of any integer type) represent, in f32.
NodeId Values(Builder& b, PackedType type, NodeId codes) {
  if (type <= PackedType::kU8) return b.Cast(codes, DType::kF32);
  std::vector<double> values;
  for (uint32_t code = 0; code < 1u << BitsOf(type); ++code)
    values.push_back(double{PackedValue(type, code)});
  const NodeId table = b.Floats(DType::kF32, {static_cast<int64_t>(values.size())}, values);
  return b.Gather(table, b.Cast(codes, DType::kI64), 0, false);
}

// Non-negative integers (i64) and their arithmetic with powers of two, for PackedShape's formulas.
struct Whole {
  Builder& b;
  NodeId Times(NodeId x, int64_t by) const {
    return b.BinaryScalar(TapeOp::kMul, x, static_cast<double>(by));
  }
  NodeId Over(NodeId x, int64_t by) const {
    if (by == 1) return x;
    if ((by & (by - 1)) != 0) return b.BinaryScalar(TapeOp::kDiv, x, static_cast<double>(by));
    return b.BinaryScalar(TapeOp::kShr, x, std::countr_zero(static_cast<uint64_t>(by)));
  }
  NodeId Rest(NodeId x, int64_t by) const {  // by: a power of two
    return b.BinaryScalar(TapeOp::kBitAnd, x, static_cast<double>(by - 1));
  }
};

// PackedShape::BitAt.
NodeId BitAt(Builder& b, const PackedShape& s, NodeId row, NodeId at) {
  const Whole w{b};
  const NodeId in = w.Rest(at, s.piece()), slice = w.Over(w.Rest(in, 128 / s.bits), 16);
  const NodeId lane = b.Add(w.Times(w.Rest(row, 8), 4), w.Over(w.Rest(at, 8), 2));
  NodeId place = b.Add(w.Times(w.Over(row, 16), s.pieces()), w.Over(at, s.piece()));
  place = b.Add(w.Times(place, 32), lane);
  place = b.Add(w.Times(place, 16), w.Times(w.Over(in, 128 / s.bits), 8));
  place = b.Add(place, w.Times(w.Over(w.Rest(row, 16), 8), 4));
  const NodeId pair = b.Add(w.Times(slice, 2), w.Over(w.Rest(at, 16), 8));
  return b.Add(b.Add(w.Times(place, 8), w.Times(pair, s.bits)), w.Times(w.Rest(at, 2), 16));
}

// PackedShape::ScaleAt.
NodeId ScaleAt(Builder& b, const PackedShape& s, NodeId row, NodeId at) {
  const Whole w{b};
  NodeId place = w.Times(w.Over(row, 16), s.blocks());
  if (s.blocks() > 1) place = b.Add(place, w.Over(at, s.block));
  return b.Add(b.Add(w.Times(place, 16), w.Times(w.Rest(row, 8), 2)), w.Over(w.Rest(row, 16), 8));
}

// A row and a column of the matrix for each element of a read, i64.
struct Place {
  NodeId row = ir::kNoNode, at = ir::kNoNode;
};

// Splits the moves of a read into whole rows and moves within a row.
bool PlacesOf(Builder& b, const PackedMatrix& matrix, const ir::IndexedAttrs& read,
              const std::vector<NodeId>& indices, Place* place) {
  if (!read.map.affine()) return false;
  const ir::ViewStep& step = read.map.steps[0];
  if (step.offset < 0) return false;
  const Whole w{b};
  int64_t most = step.offset % matrix.k;  // largest column reached
  place->row = b.Expand(b.Scalar(DType::kI64, static_cast<double>(step.offset / matrix.k)), step.shape);
  place->at = b.Expand(b.Scalar(DType::kI64, static_cast<double>(most)), step.shape);
  const auto move = [&](NodeId by, int64_t stride, int64_t extent) {
    if (stride == 0 || extent == 1) return true;
    if (stride < 0) return false;
    const bool rows = stride % matrix.k == 0;
    NodeId& at = rows ? place->row : place->at;
    at = b.Add(at, w.Times(by, rows ? stride / matrix.k : stride));
    if (!rows) most += (extent - 1) * stride;
    return most < matrix.k;
  };
  for (int d = 0; d < step.shape.rank; ++d) {
    if (!move(b.Iota(step.shape, d), step.strides[d], step.shape[d])) return false;
  }
  for (size_t i = 0; i < read.dims.size(); ++i) {
    const ir::IndexedDim& dim = read.dims[i];
    const NodeId index = b.Cast(indices[i], DType::kI64);
    const NodeId end = b.BinaryScalar(TapeOp::kAdd, index, static_cast<double>(dim.extent));
    const NodeId negative = b.Binary(TapeOp::kLess, index, b.Scalar(DType::kI64, 0));
    if (!move(dim.wrap ? b.Select(negative, end, index) : index, dim.stride, dim.extent)) return false;
  }
  return true;
}

}  // namespace

NodeId UnpackRead(Builder& b, const PackedMatrix& matrix, DType dtype, const ir::IndexedAttrs& read,
                  const std::vector<NodeId>& indices) {
  Place place;
  if (!PlacesOf(b, matrix, read, indices, &place)) return ir::kNoNode;
  const PackedShape s = matrix.shape();
  const Shape shape = read.map.shape();
  const Whole w{b};
  // The element of `data` at an index; out of range is a fault, as before.
  const auto at = [&](const std::shared_ptr<const ir::ConstantData>& data, NodeId element) {
    ir::IndexedAttrs attrs;
    attrs.map = ir::Expand(ir::DenseView(Shape{}), shape);
    std::vector<NodeId> inputs = indices;
    for (ir::IndexedDim dim : read.dims) {
      dim.stride = 0;
      attrs.dims.push_back(dim);
    }
    attrs.dims.push_back({1, data->shape.elements(), false, false});
    inputs.push_back(element);
    return b.IndexedRead(b.Constant(data), inputs, attrs, shape);
  };
  const NodeId bit = BitAt(b, s, place.row, place.at);
  NodeId codes = at(matrix.codes, w.Over(bit, 8));
  if (s.bits < 8) {
    codes = b.Binary(TapeOp::kShr, b.Cast(codes, DType::kI32), b.Cast(w.Rest(bit, 8), DType::kI32));
    codes = b.BinaryScalar(TapeOp::kBitAnd, codes, static_cast<double>((1 << s.bits) - 1));
  }
  const NodeId scale_at = ScaleAt(b, s, place.row, place.at);
  NodeId x = Values(b, matrix.type, codes);
  if (matrix.zeros != nullptr) {
    x = b.Sub(x, b.Cast(at(matrix.zeros, scale_at), DType::kF32));
  } else if (matrix.zero != 0) {
    x = b.BinaryScalar(TapeOp::kSub, x, static_cast<double>(matrix.zero));
  }
  return b.Cast(b.Mul(x, b.Cast(at(matrix.scales, scale_at), DType::kF32)), dtype);
}

NodeId Unpack(Builder& b, const PackedMatrix& matrix, DType dtype) {
  NodeId x = Values(b, matrix.type, Codes(b, matrix));
  if (matrix.zeros != nullptr) {
    x = b.Sub(x, Spread(b, matrix, matrix.zeros));
  } else if (matrix.zero != 0) {
    x = b.BinaryScalar(TapeOp::kSub, x, static_cast<double>(matrix.zero));
  }
  return b.Cast(b.Mul(x, Spread(b, matrix, matrix.scales)), dtype);
}

}  // namespace rondo::passes
