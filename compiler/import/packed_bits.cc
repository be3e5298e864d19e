#include "compiler/import/packed_bits.h"

namespace rondo::importer {

using ir::NodeId;

// Repeats each byte once per number in it, and shifts it by an amount that depends only on the position.
NodeId UnpackBits(ir::Builder& b, NodeId x, int64_t bits) {
  if (bits == 8) return x;
  const int64_t each = 8 / bits;
  Shape wide = b.shape(x), flat = wide;
  wide.dims[wide.rank++] = each;
  flat[flat.rank - 1] *= each;
  NodeId bytes = b.Cast(b.Expand(b.Unsqueeze(x, flat.rank), wide), DType::kI32);
  std::vector<int64_t> shifts;
  for (int64_t i = 0; i < each; ++i) shifts.push_back(i * bits);
  NodeId moved = b.Binary(TapeOp::kShr, bytes, b.Ints(DType::kI32, {each}, shifts));
  NodeId one = b.BinaryScalar(TapeOp::kBitAnd, moved, static_cast<double>((1 << bits) - 1));
  return b.Reshape(b.Cast(one, DType::kU8), flat);
}

NodeId PackBits(ir::Builder& b, NodeId x, int64_t bits) {
  NodeId whole = b.Cast(x, DType::kI32);
  const int64_t each = 8 / bits;
  Shape wide = b.shape(x);
  wide[wide.rank - 1] /= each;
  wide.dims[wide.rank++] = each;
  whole = b.Reshape(whole, wide);
  NodeId byte = ir::kNoNode;
  for (int64_t i = 0; i < each; ++i) {
    NodeId one = b.Squeeze(b.Slice(whole, wide.rank - 1, i, 1, 1), wide.rank - 1);
    one = b.BinaryScalar(TapeOp::kMul, one, static_cast<double>(int64_t{1} << (i * bits)));
    byte = byte == ir::kNoNode ? one : b.Add(byte, one);
  }
  return b.Cast(byte, DType::kU8);
}

}  // namespace rondo::importer
