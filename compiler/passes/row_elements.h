// RowElements: how the elements that a reduction reads come about, from what memory holds on.
#pragma once

#include <map>
#include <vector>

#include "compiler/passes/match.h"

namespace rondo::passes {

// A node whose every element gives one of a reduction, as the one before it in the chain shows it.
struct ElementStep {
  NodeId node, shown;  // `shown`: the node or a view of it
};

// The nodes that compute the elements of a reduction, its input first, each from the next; the last one is
// read as it is, or computed from several tensors.
struct RowElements {
  std::vector<ElementStep> chain;
  // chain[stored] is in memory, or stored by the first kernel that computes it. Those before it are computed
  // by each reader: they depend on an earlier reduction, or only widen what is stored.
  size_t stored = 0;

  bool empty() const { return chain.empty(); }
  NodeId root() const { return chain[stored].node; }
};

// `level`, by node: the number of reductions ahead of it.
RowElements ElementsOf(const Graph& graph, NodeId reduce, const std::vector<int>& level);

// Copies of the nodes that each reader computes, for the readers of one kernel.
using CopiedElements = std::map<NodeId, NodeId>;
// The reduction's input, computed by copies of the nodes before chain[stored].
NodeId CopyElements(Graph* graph, NodeId reduce, const RowElements& elements, CopiedElements* copies);

}  // namespace rondo::passes
