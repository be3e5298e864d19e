#include "compiler/quantise/quantised.h"

#include <algorithm>

namespace rondo::passes {

namespace {

bool IsCodes(const Node& node) {
  return Is8BitInteger(node.dtype) || IsFp8(node.dtype) || IsPackedConstant(node);
}

// Whether a cast of codes, or of values derived from them, changes no number (except by rounding scaled
// values).
bool KeepsNumbers(const Graph& g, const Node& cast) {
  const DType to = cast.dtype, from = g.node(cast.inputs[0]).dtype;
  const bool wide = IsFloat(to) || to == DType::kI16 || to == DType::kI32 || to == DType::kI64;
  return wide && (IsFloat(to) || !IsFloat(from)) && from != DType::kBool;
}

// Whether it is derived from integers or codes by casts and differences.
bool LeadsToCodes(Builder& b, NodeId id) {
  const Graph& g = b.graph();
  constexpr int kMostSteps = 4;
  for (int step = 0; step < kMostSteps; ++step) {
    const Node& node = g.node(g.BaseOf(id));
    if (!IsFloat(node.dtype) || IsCodes(node)) return true;
    if (AsPointwise(g, node.id, TapeOp::kCast) == nullptr && AsPointwise(g, node.id, TapeOp::kSub) == nullptr)
      return false;
    id = ShownInput(b, id, 0);
  }
  return false;
}

// Whether zero points are integers far below the limits of 32 bits.
bool IsWholeAndSmall(Builder& b, NodeId id) {
  const Graph& g = b.graph();
  const Node& node = g.node(g.BaseOf(id));
  if (Is8BitInteger(node.dtype)) return true;
  if (AsPointwise(g, node.id, TapeOp::kCast) != nullptr && KeepsNumbers(g, node))
    return IsWholeAndSmall(b, node.inputs[0]);
  constexpr double kMost = 1 << 15;
  std::shared_ptr<const ir::ConstantData> data;
  const NodeId once = ShownOnce(b, id);
  if (!b.ConstantValue(once, ir::kMaxReadBytes, &data)) return false;
  std::vector<double> values;
  std::vector<int64_t> integers;
  if (IsFloat(data->dtype) ? !b.ConstantFloats(once, &values) : !b.ConstantInts(once, &integers))
    return false;
  values.insert(values.end(), integers.begin(), integers.end());
  return std::all_of(values.begin(), values.end(), [](double v) {
    return v == static_cast<double>(static_cast<int64_t>(v)) && v <= kMost && v >= -kMost;
  });
}

// The integers from which a zero point is made; kNoNode if it is 0.
NodeId ZeroPoint(Builder& b, NodeId zero) {
  const Graph& g = b.graph();
  while (AsPointwise(g, g.BaseOf(zero), TapeOp::kCast) != nullptr && KeepsNumbers(g, g.node(g.BaseOf(zero))))
    zero = ShownInput(b, zero, 0);
  return UniformValue(g, zero) == 0.0 ? kNoNode : zero;
}

}  // namespace

bool IsPackedConstant(const Node& node) {
  return node.op == Op::kConstant && node.As<ir::ConstantAttrs>().data->packed != nullptr;
}

std::optional<Quantised> QuantisedOf(Builder& b, NodeId id) {
  const Graph& g = b.graph();
  Quantised q;
  constexpr int kMostSteps = 8;
  for (int step = 0; step < kMostSteps; ++step) {
    const Node& node = g.node(g.BaseOf(id));
    if (IsCodes(node)) {
      q.codes = id;
      q.zero = ShownOnce(b, q.zero);
      q.scale = ShownOnce(b, q.scale);
      return q;
    }
    if (node.op != Op::kPointwise) return std::nullopt;
    if (IsFloat(node.dtype) && ByteSize(node.dtype) < ByteSize(q.type)) q.type = node.dtype;
    const TapeOp op = node.As<ir::PointwiseAttrs>().op;
    if (op == TapeOp::kMul && IsFloat(node.dtype) && q.scale == kNoNode && q.zero == kNoNode) {
      const size_t codes = LeadsToCodes(b, ShownInput(b, id, 0)) ? 0 : 1;
      q.scale = ShownInput(b, id, 1 - codes);
      id = ShownInput(b, id, codes);
    } else if (op == TapeOp::kSub && q.zero == kNoNode && IsWholeAndSmall(b, ShownInput(b, id, 1))) {
      q.zero = ZeroPoint(b, ShownInput(b, id, 1));
      id = ShownInput(b, id, 0);
    } else if (op == TapeOp::kCast && KeepsNumbers(g, node)) {
      id = ShownInput(b, id, 0);
    } else {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace rondo::passes
