// Values of 16 bits that are widened: each reader widens for itself, so that what lies in memory between them
// is the narrow value.
#include "compiler/fusion/context.h"

namespace rondo::fusion {

using ir::Node;
using ir::Op;

namespace {

bool IsCast(const ir::Graph& graph, NodeId id, DType to) {
  const Node& n = graph.node(id);
  return n.op == Op::kPointwise && n.As<ir::PointwiseAttrs>().op == TapeOp::kCast && n.dtype == to;
}

NodeId Copy(ir::Graph* graph, NodeId of) {
  Node copy = graph->node(of);
  copy.name.clear();
  return graph->Add(std::move(copy));
}

}  // namespace

bool Widens(const ir::Graph& graph, NodeId id) {
  if (!IsCast(graph, id, DType::kF32)) return false;
  const DType narrow = graph.node(graph.BaseOf(graph.node(id).inputs[0])).dtype;
  return narrow == DType::kF16 || narrow == DType::kBF16;
}

bool WidensWhatWasRounded(const ir::Graph& graph, NodeId id) {
  if (!Widens(graph, id)) return false;
  const NodeId rounded = graph.BaseOf(graph.node(id).inputs[0]);
  return IsCast(graph, rounded, DType::kF16) || IsCast(graph, rounded, DType::kBF16);
}

void WidenAtReaders(ir::Graph* graph) {
  std::vector<NodeId> first_reader(static_cast<size_t>(graph->size()), ir::kNoNode);
  for (NodeId reader : graph->TopologicalOrder()) {
    if (graph->node(reader).op == Op::kView) continue;
    std::vector<std::pair<NodeId, NodeId>> own;  // what this reader widens itself: of what, its copy
    for (size_t k = 0; k < graph->node(reader).inputs.size(); ++k) {
      const NodeId input = graph->node(reader).inputs[k], wide = graph->BaseOf(input);
      if (!Widens(*graph, wide)) continue;
      NodeId& first = first_reader[static_cast<size_t>(wide)];
      if (first == ir::kNoNode) first = reader;
      if (first == reader) continue;
      NodeId copy = ir::kNoNode;
      for (const auto& [of, made] : own) copy = of == wide ? made : copy;
      if (copy == ir::kNoNode) {
        copy = Copy(graph, wide);
        own.emplace_back(wide, copy);
      }
      if (input != wide) {
        const NodeId view = Copy(graph, input);
        graph->SetInput(view, 0, copy);
        copy = view;
      }
      graph->SetInput(reader, k, copy);
    }
  }
}

}  // namespace rondo::fusion
