// Sizes: the dims of a graph's tensors, and small integer tensors, as sizes that may be unknown (size.h).
//
// A node's shape holds extents, that is upper bounds. For nodes that depend on a named size, this table has
// the actual dims at run time; elements beyond them are unused. A Builder that follows the sizes
// (Builder::Follow) fills the table as it creates nodes, for operations that keep dims separate; other
// results of an unknown dim have Unknown dims. The table borrows its graph, whose nodes must keep their ids
// meanwhile.
//
// If sizes are `exact`, all runs have the extents. Then only numbers that the model computes from a shape
// differ: they follow the names, while dims count as known.
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
  // Provenance of the nodes that Builder::Number makes: the option that names the sizes.
  std::string cause = "--cache-length";

  // One dim of a node, and all of them. A dim that a view repeats has its extent.
  Size Of(NodeId id, int d) const;
  Dims Of(NodeId id) const;
  bool AreKnown(NodeId id) const;
  bool Are(NodeId id, const Dims& dims) const;
  void Set(NodeId id, const Dims& dims);
  void Lose(NodeId id);  // its dims are unknown from now on

  // The elements of a small integer node, as in shape arithmetic; some may be unknown.
  std::optional<Dims> Numbers(NodeId id);

  // The node, i64 [], with the value of a named size at run time; kNoNode if there is none.
  NodeId NodeOf(const Size& size) const;
  void SetNode(const Size& size, NodeId node);

  // The dims of a node that a Builder is about to add, or has made by moving the elements of `x`.
  Dims After(const Node& node) const;
  Dims Merged(const std::vector<NodeId>& xs, const Shape& shape) const;  // of operands that broadcast
  void Transposed(NodeId id, NodeId x, const std::vector<int>& perm);
  void Sliced(NodeId id, NodeId x, int axis, int64_t start, int64_t step);
  void Expanded(NodeId id, NodeId x);
  void Reshaped(NodeId id, NodeId x);

 private:
  // nullopt: repeated, as often as the reader needs.
  using Row = std::vector<std::optional<Size>>;
  Row RowOf(NodeId id) const;
  template <typename A>
  Dims Windows(const Node& node, const A& attrs, const Shape& window) const;
  void SetRow(NodeId id, Row row);
  std::optional<Dims> Compute(NodeId id);

  const Graph* graph_;
  const bool exact_;
  std::unordered_map<NodeId, Row> rows_;  // for nodes with a dim other than its extent
  std::unordered_map<NodeId, std::optional<Dims>> numbers_;
  std::map<Size, NodeId> nodes_;
};

// The extents.
Shape ExtentsOf(const Dims& dims);

}  // namespace rondo::ir
