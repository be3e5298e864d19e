// Versions of one storage: a graph input and the chain of writes to its memory (kIndexedWrites that replace
// some elements, calls of custom ops that change it). Functions of graphs and views; no state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::ir {

// How a version was made from the one before it.
struct VersionStep {
  NodeId runs = kNoNode;  // the node that writes: the version itself, or the kCall whose result it is
  size_t slot = 0;        // its input that is the version before
};
// `runs` is kNoNode if `id` is not a version.
VersionStep VersionStepOf(const Graph& graph, NodeId id);

// A set of elements of one storage: those that a view shows, or those that a write may touch, whatever its
// indices.
class Region {
 public:
  explicit Region(View view) : view_(std::move(view)) {}  // a view without steps means all elements
  static Region OfWrite(const IndexedAttrs& attrs);
  // The elements that the write of `version` touches; all if it is a call.
  static Region OfVersion(const Graph& graph, NodeId version);

  // Exact for storage below 2^26 elements; otherwise may be true by caution.
  bool Meets(const Region& other) const;
  // Decided by the first and last elements alone.
  bool MayMeet(const Region& other) const;

 private:
  std::pair<int64_t, int64_t> Bounds() const;
  View view_;
};

// Orders all readers of an older version before the writes that replace what they read, by weak edges.
// versions[0] is the input, and versions[i + 1] is made from versions[i]. A write's own reads of older
// versions, as updates or indices, count from the write before it on: its kernel must itself separate reading
// from writing. Returns "", or the reader that would be too late; the graph is then unchanged.
std::string OrderReaders(Graph* graph, const std::vector<NodeId>& versions);

// The same for the versions of every state that is written in place.
std::string OrderStates(Graph* graph);

}  // namespace rondo::ir
