#include "compiler/import/place_by_place.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/evaluate.h"
#include "core/scalar.h"

namespace rondo::importer {

using ir::ConstantData;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

bool IsIdentity(const ir::Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  return n.op == Op::kView && n.shape == graph.node(n.inputs[0]).shape &&
         ir::IsDense(n.As<ir::ViewAttrs>().view, n.shape.elements());
}

void DropIdentityViews(ir::Graph* graph) {
  for (NodeId id = 0; id < graph->size(); ++id) {
    const Node& n = graph->node(id);
    if (!n.dead && IsIdentity(*graph, id) && !graph->IsOutput(id)) graph->Replace(id, n.inputs[0]);
  }
}

std::shared_ptr<const ConstantData> OneNumberOf(const ir::Graph& graph, NodeId id) {
  const Node& base = graph.node(graph.BaseOf(id));
  if (base.op != Op::kConstant || base.shape.elements() != 1) return nullptr;
  const ConstantData& data = *base.As<ir::ConstantAttrs>().data;
  if (data.synthetic) return nullptr;
  return ConstantData::Own(data.dtype, Shape{}, {data.bytes.begin(), data.bytes.end()});
}

NodeId OperandOf(const ir::Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  NodeId operand = kNoNode;
  if (n.op != Op::kPointwise) return kNoNode;
  for (NodeId in : n.inputs) {
    if (OneNumberOf(graph, in) != nullptr) continue;
    if (operand != kNoNode) return kNoNode;
    operand = in;
  }
  return operand;
}

std::optional<PlaceByPlace> Between(const ir::Graph& graph, NodeId from, NodeId to) {
  PlaceByPlace operations;
  while (to != from) {
    if (IsIdentity(graph, to)) {
      to = graph.node(to).inputs[0];
      continue;
    }
    const NodeId next = OperandOf(graph, to);
    if (next == kNoNode) return std::nullopt;
    operations.push_back(to);
    to = next;
  }
  std::reverse(operations.begin(), operations.end());
  return operations;
}

NodeId Apply(ir::Builder& b, const ir::Graph& graph, const PlaceByPlace& operations, NodeId x) {
  for (NodeId id : operations) {
    std::vector<NodeId> inputs;
    for (NodeId in : graph.node(id).inputs) {
      const std::shared_ptr<const ConstantData> number = OneNumberOf(graph, in);
      inputs.push_back(number == nullptr ? x : b.Constant(number));
    }
    const ir::PointwiseAttrs attrs = graph.node(id).As<ir::PointwiseAttrs>();
    x = b.Pointwise(attrs, graph.node(id).dtype, std::move(inputs));
  }
  return x;
}

bool GivesBackAll(const ir::Graph& graph, DType dtype, const PlaceByPlace& first, const PlaceByPlace& second,
                  const PlaceByPlace& third) {
  if (ByteSize(dtype) > 2 || dtype == DType::kBool) return false;
  const auto each = static_cast<size_t>(ByteSize(dtype));
  const size_t count = size_t{1} << (8 * each);
  std::vector<uint8_t> bytes(count * each);
  for (size_t v = 0; v < count; ++v) {
    for (size_t k = 0; k < each; ++k) bytes[v * each + k] = static_cast<uint8_t>(v >> (8 * k));
  }
  const Shape shape{static_cast<int64_t>(count)};
  ir::Graph all;
  ir::Builder b(&all);
  b.FoldConstants(false);
  NodeId x = b.Input("x", dtype, shape);
  for (const PlaceByPlace* operations : {&first, &second, &third}) x = Apply(b, graph, *operations, x);
  all.outputs.push_back({"y", x});
  if (b.dtype(x) != dtype) return false;
  const auto given = ConstantData::Own(dtype, shape, bytes);
  const Result<ir::Values> back = ir::EvaluateGraph(all, {given});
  if (!back.ok()) return false;
  for (int64_t i = 0; i < shape[0]; ++i) {
    const auto was = scalar::Load<double>(dtype, given->bytes.data(), i);
    const auto is = scalar::Load<double>(dtype, (*back)[0]->bytes.data(), i);
    if (was != is && !(std::isnan(was) && std::isnan(is))) return false;
  }
  return true;
}

}  // namespace rondo::importer
