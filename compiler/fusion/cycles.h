// CycleCheck: whether a group would wait for itself if one more node joined it. It also would if one of its
// nodes is to run after another that it does not depend on: a kernel computes all of its nodes at once.
//
// Groups are contracted to one point each, and so contracted the graph never has a cycle: every node that
// joins is asked about first. A search for a path that leaves the group and comes back runs from both ends at
// once and ends with the shorter of the two. It stays within the blocks of the group: stretches of the
// topological order that no group reaches across, so that no path leads from one back to an earlier one.
// Internal to compiler/fusion; lives as long as the forming of groups.
#pragma once

#include <vector>

#include "compiler/fusion/context.h"

namespace rondo::fusion {

class CycleCheck {
 public:
  // `context` must outlive it; its nodes, order and readers do not change.
  explicit CycleCheck(const Context* context);

  // Node `id` is in the group of `other` from now on. (One that leaves again does no harm.)
  void Joined(NodeId id, NodeId other);
  // True if computing `candidate`, which the members read or order themselves after, together with `members`
  // would make their kernel wait for itself.
  bool WouldCycleAsProducer(const std::vector<NodeId>& members, NodeId candidate);
  // The same for a candidate that reads members.
  bool WouldCycleAsReader(const std::vector<NodeId>& members, NodeId candidate);

 private:
  // One end of a search: units (groups, or nodes outside of all groups) that it has reached.
  struct Side {
    bool forward = true;
    std::vector<int> reached;  // by node that stands for a unit: the search that reached it last
    std::vector<NodeId> queue;
    size_t next = 0;
  };

  // Whether a control edge, and no data, puts the candidate after a member of this search, or one after it.
  bool OrderedApart(NodeId candidate) const;
  bool ReadsInside(NodeId reader, NodeId producer) const;
  bool Search(const std::vector<NodeId>& members, NodeId candidate, bool producer);
  bool Expand(Side* side, const Side& other, NodeId id, bool from_target);
  NodeId UnitOf(NodeId id) const;
  int BlockOf(int position);

  const Context& c_;
  std::vector<std::vector<NodeId>> runs_before_;  // by node: what has a control edge from it
  std::vector<int> block_, block_end_;            // by position: a block's first position, found step by step
  std::vector<int> target_;                       // by node: the last search in whose group it was
  int search_ = 0, low_ = 0, high_ = 0;           // the positions that the search stays within
  Side forward_, backward_;
};

}  // namespace rondo::fusion
