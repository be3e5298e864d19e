// Sizes: the dims of a graph's tensors, and its small whole numbers, as sizes that need not be known
// (size.h).
//
// A node's shape holds extents: what there is room for. Of nodes that depend on a named size, this table says
// how long each dim is in a run; the elements behind are of no position. A Builder that follows such sizes
// (Builder::Follow) fills it as it makes nodes, for operations that keep dims apart; what else comes of a dim
// that is not known has Unknown ones. The table borrows its graph, whose nodes keep their numbers meanwhile.
//
// Where sizes are `exact`, all runs have the extents, and it is only asked what would be other numbers: a
// shape that a model asks for gives numbers that follow from the names, while dims are as good as known.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/size.h"

namespace rondo::ir {

class Sizes {
 public:
  explicit Sizes(const Graph* graph, bool exact = false) : graph_(graph), exact_(exact) {}
  bool exact() const { return exact_; }
  // What the nodes of numbers (Builder::Number) come from, as provenance: the option that names the sizes.
  std::string cause = "--cache-length";

  // A dim of a node, and all of them. One that a view repeats is as long as its extent.
  Size Of(NodeId id, int d) const;
  Dims Of(NodeId id) const;
  bool AreKnown(NodeId id) const;
  bool Are(NodeId id, const Dims& dims) const;
  void Set(NodeId id, const Dims& dims);
  void Lose(NodeId id);  // nobody follows its dims

  // The elements of a node, if they are few and whole: those of shape arithmetic. Unknown ones among them.
  std::optional<Dims> Numbers(NodeId id);

  // The node, i64 [], that a named size is in a run; kNoNode if it has none.
  NodeId NodeOf(const Size& size) const;
  void SetNode(const Size& size, NodeId node);

  // What follows for a node that a Builder is about to add, or has made of `x` by moving its elements.
  Dims After(const Node& node) const;
  Dims Merged(const std::vector<NodeId>& xs, const Shape& shape) const;  // of operands that broadcast
  void Transposed(NodeId id, NodeId x, const std::vector<int>& perm);
  void Sliced(NodeId id, NodeId x, int axis, int64_t start, int64_t step);
  void Expanded(NodeId id, NodeId x);
  void Reshaped(NodeId id, NodeId x);

 private:
  // nullopt: repeated, as often as whoever reads it wants.
  using Row = std::vector<std::optional<Size>>;
  Row RowOf(NodeId id) const;
  template <typename A>
  Dims Windows(const Node& node, const A& attrs, const Shape& window) const;
  void SetRow(NodeId id, Row row);
  std::optional<Dims> Compute(NodeId id);

  const Graph* graph_;
  const bool exact_;
  std::unordered_map<NodeId, Row> rows_;  // of nodes with a dim that is not just its extent
  std::unordered_map<NodeId, std::optional<Dims>> numbers_;
  std::map<Size, NodeId> nodes_;
};

// The extents.
Shape ExtentsOf(const Dims& dims);

}  // namespace rondo::ir
