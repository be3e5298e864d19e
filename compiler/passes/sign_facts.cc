#include "compiler/passes/sign_facts.h"

#include <algorithm>
#include <cmath>

#include "compiler/passes/match.h"

namespace rondo::passes {

namespace {

// Known facts, from none to strongest. Each allows NaN.
enum class Sign {
  kUnknown,
  kNotBelowZero,   // -0 or above
  kNeverNegative,  // +0 or above
  kPositive,       // above 0
};

constexpr int kDepth = 12;  // of nodes that are looked at

Sign SignOf(const Graph& g, NodeId id, int depth);

Sign SignOfConstant(const Graph& g, NodeId id) {
  const std::optional<double> value = UniformValue(g, id);
  if (!value) return Sign::kUnknown;
  if (*value == 0) return std::signbit(*value) ? Sign::kNotBelowZero : Sign::kNeverNegative;
  return *value > 0 ? Sign::kPositive : Sign::kUnknown;
}

Sign SignOfPointwise(const Graph& g, const Node& n, int depth) {
  const auto of = [&](size_t i) { return SignOf(g, n.inputs[i], depth - 1); };
  // Products and quotients of small numbers round to 0, and dividing by -0 gives negative numbers.
  const auto divided = [](Sign by) {
    return by >= Sign::kNeverNegative ? Sign::kNeverNegative : Sign::kUnknown;
  };
  const auto at_most = [](Sign sign, Sign most) { return std::min(sign, most); };
  switch (n.As<ir::PointwiseAttrs>().op) {
    case TapeOp::kAbs:
    case TapeOp::kExp:
    case TapeOp::kSigmoid: return Sign::kNeverNegative;
    case TapeOp::kMul:
      if (n.inputs[0] == n.inputs[1]) return Sign::kNeverNegative;
      return at_most(std::min(of(0), of(1)), Sign::kNeverNegative);
    case TapeOp::kDiv: return std::min(of(0), divided(of(1)));
    case TapeOp::kAdd: {
      const Sign a = of(0), b = of(1);
      return std::min(a, b) == Sign::kUnknown ? Sign::kUnknown : std::max(a, b);
    }
    case TapeOp::kMax: {
      const Sign a = of(0), b = of(1), most = std::max(a, b);
      if (most == Sign::kPositive) return most;
      // For +0 and -0 either may be returned.
      return most == Sign::kUnknown ? most : a == b ? a : Sign::kNotBelowZero;
    }
    case TapeOp::kMin: return std::min(of(0), of(1));
    case TapeOp::kSelect: return std::min(of(1), of(2));
    case TapeOp::kSqrt: return of(0);
    case TapeOp::kReciprocal:
    case TapeOp::kRsqrt: return divided(of(0));
    case TapeOp::kCast:
      return IsFloat(g.node(n.inputs[0]).dtype) ? at_most(of(0), Sign::kNeverNegative) : Sign::kUnknown;
    default: return Sign::kUnknown;
  }
}

Sign SignOf(const Graph& g, NodeId id, int depth) {
  if (depth == 0) return Sign::kUnknown;
  const Node& n = g.node(g.BaseOf(id));
  switch (n.op) {
    case Op::kConstant: return SignOfConstant(g, id);
    case Op::kPointwise: return SignOfPointwise(g, n, depth);
    case Op::kReduce:
      switch (n.As<ir::ReduceAttrs>().kind) {
        case ir::ReduceKind::kSum:
        case ir::ReduceKind::kProd: return std::min(SignOf(g, n.inputs[0], depth - 1), Sign::kNeverNegative);
        case ir::ReduceKind::kMax:
        case ir::ReduceKind::kMin: return SignOf(g, n.inputs[0], depth - 1);
        default: return Sign::kUnknown;
      }
    default: return Sign::kUnknown;
  }
}

}  // namespace

bool IsNeverNegative(const Graph& graph, NodeId id) {
  return SignOf(graph, id, kDepth) >= Sign::kNeverNegative;
}

bool IsNeverBelowZero(const Graph& graph, NodeId id) {
  return SignOf(graph, id, kDepth) >= Sign::kNotBelowZero;
}

bool IsNeverMinusZero(const Graph& graph, NodeId id) {
  if (!IsFloat(graph.node(id).dtype)) return true;
  const Node& n = graph.node(graph.BaseOf(id));
  // A cast of integers; a sum with +0.
  if (n.op == Op::kPointwise) {
    const TapeOp op = n.As<ir::PointwiseAttrs>().op;
    if (op == TapeOp::kCast && !IsFloat(graph.node(n.inputs[0]).dtype)) return true;
    if (op == TapeOp::kAdd) {
      for (const NodeId input : n.inputs) {
        const std::optional<double> value = UniformValue(graph, input);
        if (value && *value == 0 && !std::signbit(*value)) return true;
      }
    }
  }
  return IsNeverNegative(graph, id);
}

}  // namespace rondo::passes
