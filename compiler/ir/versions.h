// Versions of one storage: a graph input and the chain of writes (kIndexedWrites that replace some of its
// elements, calls of custom ops that change it) one after the other, in its own memory. Functions of graphs
// and views; no state.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::ir {

// How a version came from the one before it.
struct VersionStep {
  NodeId runs = kNoNode;  // the node that writes: the version itself, or the kCall that it is a result of
  size_t slot = 0;        // its input that is the version before
};
// `runs` is kNoNode if `id` is no version of anything.
VersionStep VersionStepOf(const Graph& graph, NodeId id);

// A set of elements of one storage: those that a view shows, or that a write may touch whatever its indices.
class Region {
 public:
  explicit Region(View view) : view_(std::move(view)) {}  // a view without steps stands for all elements
  static Region OfWrite(const IndexedAttrs& attrs);
  // What the write that made `version` touches: all elements, where it is a call.
  static Region OfVersion(const Graph& graph, NodeId version);

  // Exact for storage below 2^26 elements; true where it cannot tell.
  bool Meets(const Region& other) const;
  // By the first and last elements alone.
  bool MayMeet(const Region& other) const;

 private:
  std::pair<int64_t, int64_t> Bounds() const;
  View view_;
};

// Makes everyone who reads an older version run before the writes that replace what it reads, by weak edges.
// versions[0] is the input, versions[i + 1] the version that comes from versions[i]. What a write
// itself reads of older versions as updates or indices counts from the write before it on: its own kernel
// must keep reading and writing apart. Returns "", or who would read too late; the graph is then as it was.
std::string OrderReaders(Graph* graph, const std::vector<NodeId>& versions);

// The same for the versions of every state of the graph that is written in place.
std::string OrderStates(Graph* graph);

}  // namespace rondo::ir
