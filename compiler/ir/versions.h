// Versions of one storage: a graph input and the chain of writes to its memory (kIndexedWrites that replace
// some elements, calls of custom ops that change it). Functions of graphs and views; no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
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

  // Whether there are common elements; true also where `MayOverlap` cannot tell.
  bool Meets(const Region& other) const;

 private:
  View view_;
};

// A version of a storage: the storage itself, what a write makes of a version, or two versions joined.
struct Version {
  NodeId node = kNoNode;
  NodeId runs = kNoNode;        // the node that writes it; kNoNode: nothing is written for it
  View place;                   // of its elements in the storage
  Region written;               // what the write replaces there
  std::vector<size_t> made_of;  // the versions whose contents it has, by number
};

// The versions of one storage. A version is a part of the storage, or the whole; what is made of disjoint
// parts is disjoint too, and needs no order.
class Versions {
 public:
  Versions(const Graph& graph, NodeId storage);
  // A chain of writes to the whole storage, chain[0].
  Versions(const Graph& graph, const std::vector<NodeId>& chain);

  // Adds version `node`, which its write makes of a version that is here.
  void AddWrite(const Graph& graph, NodeId node);
  // Adds the kIndexedWrite `node`, whose data and updates are versions here. It writes nothing: its updates
  // lie in their place.
  void AddJoin(const Graph& graph, NodeId node);

  size_t size() const { return all_.size(); }
  const Version& operator[](size_t number) const { return all_[number]; }
  std::optional<size_t> NumberOf(NodeId node) const;
  // The elements of the storage that `node` reads as input `slot`, which shows version `number`.
  Region ReadBy(const Graph& graph, NodeId node, size_t slot, size_t number) const;
  // Whether input `slot` of `node` is what one of these versions is made of.
  bool IsTarget(const Graph& graph, NodeId node, size_t slot) const;
  // Whether version `later` is made of `earlier`, by number; also if they are the same.
  bool Has(size_t later, size_t earlier) const { return earlier <= later && contents_[later][earlier]; }

 private:
  void Add(Version version);

  std::vector<Version> all_;
  std::vector<std::vector<bool>> contents_;  // of each version, itself included
  std::unordered_map<NodeId, size_t> numbers_;
};

// Orders all readers of an older version before the writes that replace what they read, by weak edges. A
// write's own reads of older versions, as updates or indices, count from the write before it on: its kernel
// must itself separate reading from writing. Returns "", or the reader that would be too late; the graph is
// then unchanged.
std::string OrderReaders(Graph* graph, const Versions& versions);

// The same for the versions of every state that is written in place.
std::string OrderStates(Graph* graph);

}  // namespace rondo::ir
