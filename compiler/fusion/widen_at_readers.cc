// Widened 16-bit values: each reader widens for itself, so that memory holds the narrow value. The same on
// the host for bytes that represent floats, if a reduction is among the readers.
#include <algorithm>

#include "compiler/fusion/context.h"
#include "core/element.h"

namespace rondo::fusion {

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

// The same, but as a part of `reader`, if annotations bind the two differently.
NodeId CopyFor(ir::Graph* graph, NodeId reader, NodeId of) {
  const NodeId copy = Copy(graph, of);
  if (!graph->annotated || ir::MayShareKernel(graph->node(copy), graph->node(reader))) return copy;
  graph->node(copy).annotations = graph->node(reader).annotations;
  graph->node(copy).sources = graph->node(reader).sources;
  return copy;
}

}  // namespace

bool Widens(const ir::Graph& graph, NodeId id) {
  if (!IsCast(graph, id, DType::kF32)) return false;
  const DType narrow = graph.node(graph.BaseOf(graph.node(id).inputs[0])).dtype;
  return Is16BitFloat(narrow);
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
    // Values that this reader widens itself: the original, its copy.
    std::vector<std::pair<NodeId, NodeId>> own;
    for (size_t k = 0; k < graph->node(reader).inputs.size(); ++k) {
      const NodeId input = graph->node(reader).inputs[k], wide = graph->BaseOf(input);
      if (!Widens(*graph, wide)) continue;
      NodeId& first = first_reader[static_cast<size_t>(wide)];
      const bool alike = !graph->annotated || ir::MayShareKernel(graph->node(wide), graph->node(reader));
      if (first == ir::kNoNode && alike) first = reader;
      if (first == reader) continue;
      NodeId copy = ir::kNoNode;
      for (const auto& [of, made] : own) copy = of == wide ? made : copy;
      if (copy == ir::kNoNode) {
        copy = CopyFor(graph, reader, wide);
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

std::vector<NodeId> StepsFromBytes(const ir::Graph& graph, NodeId id) {
  constexpr size_t kMostSteps = 3;
  std::vector<NodeId> steps;
  for (DType dtype = DType::kF32; dtype != DType::kI8 && dtype != DType::kU8; dtype = graph.node(id).dtype) {
    const Node& node = graph.node(id);
    if (node.op != Op::kPointwise || node.dtype != DType::kF32 || steps.size() == kMostSteps) return {};
    if (!ir::IsDense(graph.ViewOf(node.inputs[0]), node.shape.elements())) return {};
    for (size_t k = 1; k < node.inputs.size(); ++k) {
      const NodeId other = graph.BaseOf(node.inputs[k]);
      if (!graph.IsConstant(other) || graph.node(other).shape.elements() != 1) return {};
    }
    steps.push_back(id);
    id = graph.BaseOf(node.inputs[0]);
  }
  return steps;
}

namespace {

using Readers = std::vector<std::vector<NodeId>>;

// Whether `id` is derived by pointwise steps from a reduction among `readers`, so that both are one kernel.
bool FollowsReduction(const ir::Graph& graph, const std::vector<NodeId>& readers, NodeId id, int steps = 0) {
  constexpr int kMostSteps = 4;
  const Node& node = graph.node(id);
  if (node.op == Op::kReduce) return std::find(readers.begin(), readers.end(), id) != readers.end();
  return node.op == Op::kPointwise && steps < kMostSteps &&
         std::any_of(node.inputs.begin(), node.inputs.end(), [&](NodeId input) {
           return FollowsReduction(graph, readers, graph.BaseOf(input), steps + 1);
         });
}

// Makes reduction `reader` read a copy of `steps`, which compute `wide`.
void ReadCopy(ir::Graph* graph, NodeId reader, NodeId wide, const std::vector<NodeId>& steps) {
  NodeId made = graph->node(steps.back()).inputs[0];
  for (size_t i = steps.size(); i-- > 0;) {
    const NodeId step = Copy(graph, steps[i]), input = graph->node(step).inputs[0];
    if (i + 1 < steps.size()) {
      if (input != steps[i + 1]) {
        const NodeId view = Copy(graph, input);
        graph->SetInput(view, 0, made);
        made = view;
      }
      graph->SetInput(step, 0, made);
    }
    made = step;
  }
  const NodeId input = graph->node(reader).inputs[0];
  if (input != wide) {
    const NodeId view = Copy(graph, input);
    graph->SetInput(view, 0, made);
    made = view;
  }
  graph->SetInput(reader, 0, made);
}

}  // namespace

void WidenBytesForReductions(ir::Graph* graph) {
  Readers readers(static_cast<size_t>(graph->size()));
  const std::vector<NodeId> order = graph->TopologicalOrder();
  for (NodeId id : order) {
    if (graph->node(id).op == Op::kView) continue;
    for (NodeId input : graph->node(id).inputs)
      readers[static_cast<size_t>(graph->BaseOf(input))].push_back(id);
  }
  std::vector<uint8_t> leaves(readers.size(), 0);
  for (const auto& output : graph->outputs) leaves[static_cast<size_t>(graph->BaseOf(output.node))] = 1;
  for (NodeId id : order) {
    const std::vector<NodeId>& of = readers[static_cast<size_t>(id)];
    if (of.size() < 2 || leaves[static_cast<size_t>(id)] != 0) continue;
    const auto reduces = [&](NodeId reader) { return graph->node(reader).op == Op::kReduce; };
    const bool fits =
        std::any_of(of.begin(), of.end(), reduces) && !std::all_of(of.begin(), of.end(), reduces) &&
        std::all_of(of.begin(), of.end(), [&](NodeId reader) {
          return reduces(reader) ||
                 (graph->node(reader).op == Op::kPointwise && !FollowsReduction(*graph, of, reader));
        });
    if (!fits) continue;
    const std::vector<NodeId> steps = StepsFromBytes(*graph, id);
    for (NodeId reader : of) {
      if (!steps.empty() && reduces(reader)) ReadCopy(graph, reader, id, steps);
    }
  }
}

}  // namespace rondo::fusion
