#include "compiler/passes/row_elements.h"

#include <algorithm>

namespace rondo::passes {

namespace {

constexpr size_t kLongest = 32;  // nodes that are looked at

// Whether a copy of it may stand beside it.
bool IsCopied(const Node& node) {
  const auto binds = [](const auto& annotation) { return annotation.first != "label"; };
  return node.op == Op::kPointwise && !ir::HasEffect(node) && node.weak_after.empty() &&
         node.strong_after.empty() && std::none_of(node.annotations.begin(), node.annotations.end(), binds);
}

// The only input of which each element of the node reads one of its own; kNoNode if there are several.
NodeId OwnInput(const Graph& graph, const Node& node) {
  NodeId own = kNoNode;
  for (NodeId input : node.inputs) {
    if (graph.node(graph.BaseOf(input)).shape.elements() < node.shape.elements()) continue;
    if (own != kNoNode && own != input) return kNoNode;
    own = input;
  }
  return own;
}

}  // namespace

RowElements ElementsOf(const Graph& graph, NodeId reduce, const std::vector<int>& level) {
  RowElements elements;
  std::vector<ElementStep>& chain = elements.chain;
  NodeId shown = graph.node(reduce).inputs[0];
  const int64_t all = graph.node(shown).shape.elements();
  while (shown != kNoNode && chain.size() < kLongest) {
    const Node& node = graph.node(graph.BaseOf(shown));
    if (node.shape.elements() != all) break;
    chain.push_back({node.id, shown});
    shown = IsCopied(node) ? OwnInput(graph, node) : kNoNode;
  }
  const auto level_of = [&](size_t i) { return level[static_cast<size_t>(chain[i].node)]; };
  for (size_t i = 1; i < chain.size(); ++i)
    if (level_of(i - 1) > level_of(i)) elements.stored = i;
  for (size_t i = elements.stored + 1; i < chain.size(); ++i) {
    const DType dtype = graph.node(chain[i].node).dtype, stored = graph.node(elements.root()).dtype;
    if (ByteSize(dtype) < ByteSize(stored)) elements.stored = i;
  }
  return elements;
}

NodeId CopyElements(Graph* graph, NodeId reduce, const RowElements& elements, CopiedElements* copies) {
  const NodeId input = graph->node(reduce).inputs[0];
  if (elements.stored == 0) return input;
  NodeId below = elements.root();
  for (size_t i = elements.stored; i-- > 0;) {
    const NodeId node = elements.chain[i].node, next = elements.chain[i + 1].node;
    NodeId& copy = copies->emplace(node, kNoNode).first->second;
    if (copy == kNoNode) {
      Builder b = BuilderLike(graph, node);
      std::vector<NodeId> inputs = graph->node(node).inputs;
      for (NodeId& in : inputs)
        if (below != next && graph->BaseOf(in) == next) in = b.ViewNode(below, graph->ViewOf(in));
      copy = b.Pointwise(graph->node(node).As<ir::PointwiseAttrs>(), graph->node(node).dtype, inputs);
    }
    below = copy;
  }
  return BuilderLike(graph, reduce).ViewNode(below, graph->ViewOf(input));
}

}  // namespace rondo::passes
