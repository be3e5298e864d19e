#include "compiler/quantise/lowering.h"

#include "compiler/ir/transposed_bytes.h"

namespace rondo::passes {

bool Lowering::ReadFactors(Quantised* a, Quantised* w) {
  const std::vector<NodeId> inputs = g_.node(id_).inputs;
  const std::optional<Quantised> left = QuantisedOf(b_, inputs[0]);
  const std::optional<Quantised> right = left ? QuantisedOf(b_, inputs[1]) : std::nullopt;
  if (!right) return false;
  *a = *left, *w = *right;
  return true;
}

bool Lowering::FollowSums(const Quantised& a, const Quantised& w) const {
  const auto follows = [&](NodeId x, bool weight) {
    if (x == kNoNode) return true;
    const Shape& shape = g_.node(x).shape;
    if (g_.node(id_).op == Op::kMatMul) return shape[shape.rank - (weight ? 2 : 1)] == 1;
    return shape.elements() == (weight ? shape[0] : 1);
  };
  return follows(a.zero, false) && follows(a.scale, false) && follows(w.zero, true) && follows(w.scale, true);
}

Lowering::Data Lowering::Known(NodeId codes) {
  constexpr int64_t kMostBytes = int64_t{1} << 31;
  Data value;
  return b_.ConstantValue(ShownOnce(b_, codes), kMostBytes, &value) ? value : nullptr;
}

NodeId Lowering::Weight(Data data, NodeId like) {
  const NodeId weight = b_.Constant(std::move(data));
  g_.node(weight).name = g_.node(g_.BaseOf(like)).name;
  return weight;
}

NodeId Lowering::LinesAlongK(const Data& data, NodeId like) {
  const Shape shown = g_.node(like).shape;
  Shape laid = data->shape;
  const int r = laid.rank;
  const int64_t k = laid[r - 2], n = laid[r - 1];
  if (k != shown[r - 2] || n != shown[r - 1]) return kNoNode;
  std::swap(laid[r - 2], laid[r - 1]);
  std::vector<int> perm;
  for (int d = 0; d < r; ++d) perm.push_back(d < r - 2 ? d : d == r - 2 ? r - 1 : r - 2);
  const NodeId weight =
      Weight(ir::ConstantData::Own(data->dtype, laid, ir::TransposedBytes(data->bytes, k, n)), like);
  return b_.Expand(b_.Transpose(weight, perm), shown);
}

NodeId Lowering::AlongChannels(NodeId x) {
  if (x == kNoNode) return x;
  Shape shape;
  shape.rank = g_.node(id_).shape.rank;
  for (int d = 0; d < shape.rank; ++d) shape[d] = d == 1 ? g_.node(x).shape.elements() : 1;
  return b_.Reshape(x, shape);
}

NodeId Lowering::Scaled(NodeId sums, NodeId a, NodeId w) {
  const DType type = g_.node(id_).dtype;
  if (!IsFloat(type)) return sums;
  NodeId y = b_.Cast(sums, DType::kF32);
  if (a != kNoNode) a = b_.Cast(a, DType::kF32);
  if (w != kNoNode) w = b_.Cast(w, DType::kF32);
  const NodeId scale = a == kNoNode ? w : w == kNoNode ? a : b_.Mul(a, w);
  if (scale != kNoNode) y = b_.Mul(y, scale);
  return b_.Cast(y, type);
}

}  // namespace rondo::passes
