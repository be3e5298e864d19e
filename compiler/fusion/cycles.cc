#include "compiler/fusion/cycles.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

namespace rondo::fusion {

CycleCheck::CycleCheck(const Context* context) : c_(*context) {
  const size_t nodes = c_.group_of.size();
  runs_before_.resize(nodes);
  for (NodeId id : c_.order) {
    const Node& node = c_.node(id);
    if (node.op == ir::Op::kView) continue;  // views compute nothing: readers look through them
    for (const auto* edges : {&node.weak_after, &node.strong_after}) {
      for (NodeId before : *edges) runs_before_[c_.base(before)].push_back(id);
    }
  }
  block_.resize(c_.order.size());
  std::iota(block_.begin(), block_.end(), 0);
  block_end_ = block_;
  target_.assign(nodes, 0);
  forward_.reached.assign(nodes, 0);
  backward_.reached.assign(nodes, 0);
  backward_.forward = false;
}

// Follows `block_` to the block's first position, with path halving.
int CycleCheck::BlockOf(int position) {
  while (block_[position] != position) {
    block_[position] = block_[block_[position]];
    position = block_[position];
  }
  return position;
}

void CycleCheck::Joined(NodeId id, NodeId other) {
  const auto [low, high] = std::minmax(c_.position[id], c_.position[other]);
  const int block = BlockOf(low);
  while (block_end_[block] < high) {
    const int next = block_end_[block] + 1;
    block_[next] = block;
    block_end_[block] = block_end_[next];
  }
}

NodeId CycleCheck::UnitOf(NodeId id) const {
  const int group = c_.group_of[id];
  return group < 0 ? id : c_.groups[group].nodes[0];
}

// Expands node `id` by one step. True if that closes a cycle.
bool CycleCheck::Expand(Side* side, const Side& other, NodeId id, bool from_target) {
  const auto step = [&](NodeId to) {
    if (target_[to] == search_) return !from_target;
    const NodeId unit = UnitOf(to);
    const int block = BlockOf(c_.position[unit]);
    if (side->reached[unit] == search_ || block > high_ || block_end_[block] < low_) return false;
    side->reached[unit] = search_;
    side->queue.push_back(unit);
    return other.reached[unit] == search_;
  };
  const auto any = [&](const std::vector<NodeId>& list) {
    return std::any_of(list.begin(), list.end(), [&](NodeId to) { return step(c_.base(to)); });
  };
  if (side->forward) return any(c_.readers[id]) || any(runs_before_[id]);
  const Node& node = c_.node(id);
  return any(node.inputs) || any(node.weak_after) || any(node.strong_after);
}

// Whether `reader` depends on `producer` by data, through nodes of this search's group.
bool CycleCheck::ReadsInside(NodeId reader, NodeId producer) const {
  std::vector<NodeId> ahead = {reader};
  std::unordered_set<NodeId> seen;
  while (!ahead.empty()) {
    const NodeId id = ahead.back();
    ahead.pop_back();
    for (NodeId input : c_.node(id).inputs) {
      const NodeId base = c_.base(input);
      if (base == producer) return true;
      if (target_[base] == search_ && seen.insert(base).second) ahead.push_back(base);
    }
  }
  return false;
}

bool CycleCheck::OrderedApart(NodeId candidate) const {
  const auto member = [&](NodeId id) { return id != candidate && target_[id] == search_; };
  const Node& node = c_.node(candidate);
  for (const auto* edges : {&node.weak_after, &node.strong_after}) {
    for (NodeId before : *edges) {
      if (member(c_.base(before)) && !ReadsInside(candidate, c_.base(before))) return true;
    }
  }
  const std::vector<NodeId>& later = runs_before_[candidate];
  return std::any_of(later.begin(), later.end(),
                     [&](NodeId late) { return member(late) && !ReadsInside(late, candidate); });
}

bool CycleCheck::WouldCycleAsProducer(const std::vector<NodeId>& members, NodeId candidate) {
  ++search_;
  for (NodeId id : members) target_[id] = search_;
  if (OrderedApart(candidate)) return true;
  const auto inside = [&](NodeId id) { return target_[id] == search_; };
  // A path out of the candidate must lead beyond the members.
  if (std::all_of(c_.readers[candidate].begin(), c_.readers[candidate].end(), inside) &&
      std::all_of(runs_before_[candidate].begin(), runs_before_[candidate].end(), inside)) {
    return false;
  }
  return Search(members, candidate, true);
}

bool CycleCheck::WouldCycleAsReader(const std::vector<NodeId>& members, NodeId candidate) {
  ++search_;
  for (NodeId id : members) target_[id] = search_;
  if (OrderedApart(candidate)) return true;
  // A path back into the candidate must lead through something other than members, inputs and constants.
  const Node& node = c_.node(candidate);
  const auto inside = [&](NodeId id) {
    const Node& from = c_.node(c_.base(id));
    const bool has_none = from.op == ir::Op::kInput || from.op == ir::Op::kConstant;
    return target_[from.id] == search_ || (has_none && c_.group_of[from.id] < 0);
  };
  const auto all = [&](const std::vector<NodeId>& list) {
    return std::all_of(list.begin(), list.end(), inside);
  };
  if (all(node.inputs) && all(node.weak_after) && all(node.strong_after)) return false;
  return Search(members, candidate, false);
}

// A cycle through the members contains the candidate: as a producer, a path leads out of the candidate and
// back into a member; as a reader, out of a member and into the candidate.
bool CycleCheck::Search(const std::vector<NodeId>& members, NodeId candidate, bool producer) {
  target_[candidate] = search_;
  low_ = high_ = c_.position[candidate];
  for (NodeId id : members) {
    low_ = std::min(low_, c_.position[id]);
    high_ = std::max(high_, c_.position[id]);
  }
  low_ = BlockOf(low_);
  high_ = block_end_[BlockOf(high_)];
  for (Side* side : {&forward_, &backward_}) {
    side->queue.clear();
    side->next = 0;
    const Side& other = side == &forward_ ? backward_ : forward_;
    if (side->forward == producer) {
      if (Expand(side, other, candidate, true)) return true;
      continue;
    }
    for (NodeId id : members) {
      if (Expand(side, other, id, true)) return true;
    }
  }
  while (forward_.next < forward_.queue.size() && backward_.next < backward_.queue.size()) {
    for (Side* side : {&forward_, &backward_}) {
      const NodeId unit = side->queue[side->next++];
      const Side& other = side == &forward_ ? backward_ : forward_;
      const int group = c_.group_of[unit];
      if (group < 0) {
        if (Expand(side, other, unit, false)) return true;
        continue;
      }
      for (NodeId id : c_.groups[group].nodes) {
        if (target_[id] != search_ && Expand(side, other, id, false)) return true;
      }
    }
  }
  return false;
}

}  // namespace rondo::fusion
