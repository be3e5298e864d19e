#include "compiler/passes/precision_facts.h"

#include <cmath>
#include <limits>

#include "core/scalar.h"

namespace rondo::passes {

using ir::ConstantData;

namespace {

// The value of greatest magnitude of an f32 constant; 0 if unknown.
double GreatestOf(const ConstantData& share) {
  const ConstantData& data = share.part_of == nullptr ? share : *share.part_of;
  if (data.synthetic) return std::abs(data.synthetic_scale);
  double greatest = 0;
  for (int64_t i = 0; i < data.shape.elements(); ++i) {
    const float value = scalar::Load<float>(DType::kF32, data.bytes.data(), i);
    if (std::abs(value) > std::abs(greatest)) greatest = value;
  }
  return greatest;
}

// Whether a huge input gives a huge result.
bool KeepsMagnitude(const Node& n) {
  if (n.op != Op::kPointwise) return true;
  switch (n.As<ir::PointwiseAttrs>().op) {
    case TapeOp::kAdd:
    case TapeOp::kSub:
    case TapeOp::kMul:
    case TapeOp::kDiv:
    case TapeOp::kNeg:
    case TapeOp::kAbs:
    case TapeOp::kMin:
    case TapeOp::kMax:
    case TapeOp::kSelect:
    case TapeOp::kCast:
    case TapeOp::kFma: return true;
    default: return false;
  }
}

// Whether a constant as input `k` of the node, however large, cannot enlarge the result.
bool OnlyBounds(const Node& n, size_t k) {
  if (n.op != Op::kPointwise) return false;
  const TapeOp op = n.As<ir::PointwiseAttrs>().op;
  return op == TapeOp::kMin || (op == TapeOp::kDiv && k == 1);
}

}  // namespace

double LargestOf(DType type) {
  return type == DType::kF16 ? F16ToFloat(0x7bff) : static_cast<double>(BF16ToFloat(0x7f7f));
}

ValueFacts PrecisionFacts::Of(NodeId id) {
  id = g_->BaseOf(id);
  const Node& n = g_->node(id);
  ValueFacts facts;
  if (n.op == Op::kConstant && n.dtype == DType::kF32) {
    facts.huge = !Fits(id, true);
    facts.large = facts.huge && std::isfinite(GreatestIn(id)) && GreatestIn(id) > 0;
    return facts;
  }
  return static_cast<size_t>(id) < facts_.size() ? facts_[static_cast<size_t>(id)] : facts;
}

void PrecisionFacts::Set(NodeId id, const ValueFacts& facts) {
  if (static_cast<size_t>(id) >= facts_.size()) facts_.resize(static_cast<size_t>(id) + 1);
  facts_[static_cast<size_t>(id)] = facts;
}

ValueFacts PrecisionFacts::Derive(NodeId id) {
  const Node& n = g_->node(id);
  ValueFacts facts;
  if (n.op == Op::kInput || n.op == Op::kConstant) return facts;
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    const NodeId in = n.inputs[k];
    const Node& input = g_->node(in);
    const bool cast = n.op == Op::kPointwise && n.As<ir::PointwiseAttrs>().op == TapeOp::kCast;
    // Single bytes are quantised values or bools.
    if (cast && !IsFloat(input.dtype) && ByteSize(input.dtype) > 1) facts.positional = true;
    if (input.dtype != DType::kF32) continue;
    const ValueFacts from = Of(in);
    facts.hot |= from.hot;
    facts.positional |= from.positional;
    facts.reduced |= from.reduced;
    facts.huge |= from.huge && KeepsMagnitude(n);
    facts.large |= from.large && KeepsMagnitude(n) && !(g_->IsConstant(g_->BaseOf(in)) && OnlyBounds(n, k));
    if (n.op == Op::kPointwise && from.product != kNoNode) facts.product = from.product;
  }
  const bool product = n.op == Op::kMatMul || n.op == Op::kConv || n.op == Op::kAttention;
  if (product) facts.product = id;
  facts.hot |= product || n.op == Op::kCall || n.op == Op::kCallResult || n.op == Op::kLoopResult;
  facts.reduced |= n.op == Op::kReduce;
  return facts;
}

bool PrecisionFacts::Fits(NodeId constant, bool finite) {
  if (static_cast<size_t>(constant) >= greatest_.size())
    greatest_.resize(static_cast<size_t>(constant) + 1, std::numeric_limits<double>::quiet_NaN());
  double& greatest = greatest_[static_cast<size_t>(constant)];
  if (std::isnan(greatest)) greatest = GreatestOf(*g_->node(constant).As<ir::ConstantAttrs>().data);
  return std::abs(greatest) <= LargestOf(type_) || (!finite && std::isinf(greatest));
}

double PrecisionFacts::GreatestIn(NodeId constant) {
  Fits(constant, true);
  return greatest_[static_cast<size_t>(constant)];
}

bool PrecisionFacts::IsLost(NodeId id) {
  constexpr double kLeast = 0x1p-16;
  if (type_ != DType::kF16 || !g_->IsConstant(id) || g_->node(id).dtype != DType::kF32) return false;
  if (!Fits(id, false)) return false;
  const double greatest = std::abs(greatest_[static_cast<size_t>(id)]);
  return greatest != 0 && greatest < kLeast;
}

bool PrecisionFacts::MustStay(NodeId id) {
  const ValueFacts facts = Of(id);
  return (facts.positional && !facts.hot) || (facts.large && !g_->IsConstant(g_->BaseOf(id)));
}

bool PrecisionFacts::IsGate(NodeId id) {
  const Node& n = g_->node(g_->BaseOf(id));
  if (n.op != Op::kPointwise) return false;
  const TapeOp op = n.As<ir::PointwiseAttrs>().op;
  if (op == TapeOp::kSigmoid || op == TapeOp::kTanh || op == TapeOp::kErf) return true;
  const auto bounded = [&](NodeId value, TapeOp by) -> const Node* {
    const Node& m = g_->node(g_->BaseOf(value));
    if (m.op != Op::kPointwise || m.As<ir::PointwiseAttrs>().op != by) return nullptr;
    const NodeId bound = g_->BaseOf(m.inputs[1]);
    return g_->IsConstant(bound) && std::abs(GreatestIn(bound)) <= 1 ? &m : nullptr;
  };
  for (const TapeOp outer : {TapeOp::kMin, TapeOp::kMax}) {
    const Node* clipped = bounded(id, outer);
    if (clipped != nullptr &&
        bounded(clipped->inputs[0], outer == TapeOp::kMin ? TapeOp::kMax : TapeOp::kMin))
      return true;
  }
  return false;
}

}  // namespace rondo::passes
