// The number that the padding of an elementwise result holds, if it is one number.
#include <limits>
#include <utility>

#include "compiler/import/padding_masker.h"
#include "compiler/ir/evaluate.h"
#include "core/scalar.h"

namespace rondo::importer {

using ir::Node;
using ir::NodeId;
using ir::Op;

namespace {

constexpr double kLeast = -std::numeric_limits<double>::infinity();

}  // namespace

Status PaddingMasker::VisitPointwise(NodeId id, PaddedDims* dims) {
  if (ir::IsAssertion(g_->node(id))) MaskWithZeros(id, 0);
  const std::vector<NodeId> inputs = g_->node(id).inputs;
  RONDO_RETURN_IF_ERROR(Join(inputs, 0, b_.shape(id).rank, dims));
  for (size_t d = 0; d < dims->size(); ++d) {
    for (size_t k = 0; k < (*dims)[d].axes.size(); ++k) {
      if ((*dims)[d].axes[k].padded()) (*dims)[d].axes[k].fill = FillOf(id, d, k, (*dims)[d].axes.size());
    }
  }
  return Status::Ok();
}

std::optional<double> PaddingMasker::FillOf(NodeId id, size_t d, size_t axis, size_t cut) const {
  const Node& n = g_->node(id);
  ir::Values values;
  std::vector<std::optional<double>> fills;
  bool all = true;
  for (const NodeId in : n.inputs) {
    const PaddedDim& dim = dims_of(in)[d];
    const bool alike = dim.axes.size() == cut;
    fills.push_back(!dim.padded() ? NumberOf(in) : alike ? dim.axes[axis].fill : std::nullopt);
    all = all && fills.back().has_value();
    if (!all) continue;
    std::vector<uint8_t> bytes(static_cast<size_t>(ByteSize(b_.dtype(in))));
    scalar::Store<double>(b_.dtype(in), bytes.data(), 0, *fills.back());
    values.push_back(ir::ConstantData::Own(b_.dtype(in), Shape{}, std::move(bytes)));
  }
  if (all) {
    Node one = n;
    one.shape = Shape{};
    const auto value = ir::EvaluateNode(one, values);
    if (!value.ok()) return std::nullopt;
    return scalar::Load<double>(n.dtype, (*value)->bytes.data(), 0);
  }
  // A softmax subtracts a row's maximum and divides by its sum. Whatever these are, the padding is known;
  // they are NaN only if the whole row is.
  const TapeOp op = n.As<ir::PointwiseAttrs>().op;
  if (op == TapeOp::kSub && fills[0] == kLeast && IsOfLine(n.inputs[1], n.inputs[0], ir::ReduceKind::kMax))
    return kLeast;
  if (op == TapeOp::kDiv && fills[0] == 0.0 && IsOfLine(n.inputs[1], n.inputs[0], ir::ReduceKind::kSum))
    return 0;
  return std::nullopt;
}

std::optional<double> PaddingMasker::NumberOf(NodeId id) const {
  const Node& base = g_->node(g_->BaseOf(id));
  if (base.op != Op::kConstant || base.shape.elements() != 1) return std::nullopt;
  const ir::ConstantData& data = *base.As<ir::ConstantAttrs>().data;
  if (data.synthetic) return std::nullopt;
  return scalar::Load<double>(data.dtype, data.bytes.data(), 0);
}

bool PaddingMasker::IsOfLine(NodeId id, NodeId of, ir::ReduceKind kind) const {
  const auto past_casts = [&](NodeId at) {
    for (;;) {
      const Node& n = g_->node(g_->BaseOf(at));
      const bool cast = n.op == Op::kPointwise && n.As<ir::PointwiseAttrs>().op == TapeOp::kCast;
      if (!cast) return at;
      at = n.inputs[0];
    }
  };
  const Node& reduction = g_->node(g_->BaseOf(past_casts(id)));
  return reduction.op == Op::kReduce && reduction.As<ir::ReduceAttrs>().kind == kind &&
         past_casts(reduction.inputs[0]) == past_casts(of);
}

}  // namespace rondo::importer
