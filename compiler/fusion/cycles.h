// CycleCheck: whether a group would have to wait for itself if one more node joined it. This is also so if
// one of its nodes must run after another without depending on it, since a kernel computes all of its nodes
// at once.
//
// The graph with each group contracted to one point never has a cycle, because every joining node is checked
// first. The search for a path that leaves the group and returns runs from both ends at once, and ends with
// the shorter one. It stays within the blocks of the group: sections of the topological order that no group
// crosses, so that no path leads from one back to an earlier one. Internal to compiler/fusion; lives while
// groups are formed.
#pragma once

#include <vector>

#include "compiler/fusion/context.h"

namespace rondo::fusion {

class CycleCheck {
 public:
  // `context` must outlive it; its nodes, order and readers do not change.
  explicit CycleCheck(const Context* context);

  // Node `id` is in the group of `other` from now on. (If it leaves again, the check is only more cautious.)
  void Joined(NodeId id, NodeId other);
  // True if computing `candidate`, which the members read or must run after, together with `members` would
  // make their kernel wait for itself.
  bool WouldCycleAsProducer(const std::vector<NodeId>& members, NodeId candidate);
  // The same for a candidate that reads members.
  bool WouldCycleAsReader(const std::vector<NodeId>& members, NodeId candidate);

 private:
  // One end of a search: the units (groups, or nodes outside groups) that it has reached.
  struct Side {
    bool forward = true;
    std::vector<int> reached;  // by the node that stands for a unit: the last search that reached it
    std::vector<NodeId> queue;
    size_t next = 0;
  };

  // Whether only control edges, and no data, put the candidate after a member of this search, or after a node
  // behind one.
  bool OrderedApart(NodeId candidate) const;
  bool ReadsInside(NodeId reader, NodeId producer) const;
  bool Search(const std::vector<NodeId>& members, NodeId candidate, bool producer);
  bool Expand(Side* side, const Side& other, NodeId id, bool from_target);
  NodeId UnitOf(NodeId id) const;
  int BlockOf(int position);

  const Context& c_;
  std::vector<std::vector<NodeId>> runs_before_;  // by node: the nodes with a control edge from it
  std::vector<int> block_, block_end_;            // by position: a block's first position, found step by step
  std::vector<int> target_;                       // by node: the last search whose group it was in
  int search_ = 0, low_ = 0, high_ = 0;           // the positions within which the search stays
  Side forward_, backward_;
};

}  // namespace rondo::fusion
