// A graph's edges: which nodes name a node, which node comes after which, and trial changes.
#include <algorithm>
#include <unordered_set>

#include "compiler/ir/graph.h"

namespace rondo::ir {

bool Graph::Acyclic() {
  Index();
  if (ranked_) return true;
  const std::vector<NodeId> order = TopologicalOrder();
  ranked_ = !order.empty() || size() == 0;
  if (!ranked_) return false;
  rank_.assign(nodes_.size(), 0);
  constexpr int64_t kApart = 1 << 20;
  for (size_t i = 0; i < order.size(); ++i)
    rank_[static_cast<size_t>(order[i])] = static_cast<int64_t>(i + 1) * kApart;
  return true;
}

int64_t Graph::RankOf(NodeId id) { return Acyclic() ? rank_[static_cast<size_t>(id)] : 0; }

bool Graph::Reaches(NodeId from, NodeId to) {
  const bool ranked = Acyclic();
  // A node ranked at or below `from` does not come after `from`.
  const int64_t least = ranked ? rank_[static_cast<size_t>(from)] : -1;
  std::unordered_set<NodeId> seen;
  std::vector<NodeId> stack = {to};
  while (!stack.empty()) {
    const NodeId id = stack.back();
    stack.pop_back();
    if (id == from) return true;
    if ((ranked && rank_[static_cast<size_t>(id)] <= least) || !seen.insert(id).second) continue;
    const Node& n = node(id);
    for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
      stack.insert(stack.end(), list->begin(), list->end());
    }
  }
  return false;
}

bool Graph::LowerRank(NodeId id, int64_t below, int* tries) {
  if (rank_[static_cast<size_t>(id)] < below) return true;
  if (--*tries < 0) return false;
  const Node& n = node(id);
  int64_t rank = 0;
  for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
    for (NodeId in : *list) {
      if (!LowerRank(in, below - 1, tries)) return false;
      rank = std::max(rank, rank_[static_cast<size_t>(in)]);
    }
  }
  rank_[static_cast<size_t>(id)] = rank + 1;
  return true;
}

void Graph::Named(NodeId id, NodeId by) {
  if (by >= indexed_) return;
  int tries = 32;
  ranked_ = ranked_ && LowerRank(id, rank_[static_cast<size_t>(by)], &tries);
  int& head = named_by_[static_cast<size_t>(id)];
  mentions_.push_back({by, head});
  head = static_cast<int>(mentions_.size()) - 1;
}

// Indexes the nodes and outputs that were added since the last call.
void Graph::Index() {
  named_by_.resize(nodes_.size(), -1);
  if (ranked_) rank_.resize(nodes_.size(), 0);
  const NodeId first = indexed_;
  indexed_ = size();
  for (NodeId id = first; id < indexed_; ++id) {
    const Node& n = node(id);
    if (ranked_) {
      int64_t rank = 0;
      for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
        for (NodeId in : *list) rank = std::max(rank, rank_[static_cast<size_t>(in)]);
      }
      rank_[static_cast<size_t>(id)] = rank + 1;
    }
    for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
      for (NodeId in : *list) Named(in, id);
    }
  }
  for (; indexed_outputs_ < outputs.size(); ++indexed_outputs_) {
    outputs_of_[outputs[indexed_outputs_].node].push_back(indexed_outputs_);
  }
}

void Graph::ForgetNames() {
  mentions_.clear();
  named_by_.clear();
  outputs_of_.clear();
  indexed_ = 0;
  indexed_outputs_ = 0;
  ranked_ = false;
}

void Graph::Touch(NodeId id) {
  if (trying_ && id < tried_from_) saved_.try_emplace(id, node(id));
}

void Graph::TouchOutput(size_t output) {
  if (trying_) saved_outputs_.emplace_back(output, outputs[output].node);
}

void Graph::Try() {
  trying_ = true;
  tried_from_ = size();
}

void Graph::Keep() {
  trying_ = false;
  saved_.clear();
  saved_outputs_.clear();
}

void Graph::TakeBack() {
  Changed();
  nodes_.Truncate(static_cast<size_t>(tried_from_));
  indexed_ = std::min(indexed_, tried_from_);
  if (named_by_.size() > nodes_.size()) named_by_.resize(nodes_.size());
  if (rank_.size() > nodes_.size()) rank_.resize(nodes_.size());
  for (auto& [id, old] : saved_) {
    Node& n = node(id) = std::move(old);
    for (const std::vector<NodeId>* list : {&n.inputs, &n.weak_after, &n.strong_after}) {
      for (NodeId in : *list) Named(in, id);
    }
  }
  for (size_t i = saved_outputs_.size(); i-- > 0;) {
    const auto [output, old] = saved_outputs_[i];
    outputs[output].node = old;
    outputs_of_[old].push_back(output);
  }
  Keep();
}

void Graph::SetInput(NodeId id, size_t slot, NodeId to) {
  Changed();
  Touch(id);
  node(id).inputs[slot] = to;
  Index();
  Named(to, id);
}

void Graph::RunAfter(NodeId id, NodeId before, bool strong) {
  Changed();
  Touch(id);
  (strong ? node(id).strong_after : node(id).weak_after).push_back(before);
  Index();
  Named(before, id);
}

void Graph::SetInputNode(size_t number, NodeId id) {
  inputs[number].node = id;
  Changed();
}

void Graph::SetOutput(size_t output, NodeId node) {
  Changed();
  TouchOutput(output);
  outputs[output].node = node;
  Index();
  outputs_of_[node].push_back(output);
}

std::vector<NodeId> Graph::Naming(NodeId id) {
  Index();
  const auto names = [&](NodeId by) {
    if (by >= size() || node(by).dead) return false;
    const Node& n = node(by);
    return std::find(n.inputs.begin(), n.inputs.end(), id) != n.inputs.end() ||
           std::find(n.weak_after.begin(), n.weak_after.end(), id) != n.weak_after.end() ||
           std::find(n.strong_after.begin(), n.strong_after.end(), id) != n.strong_after.end();
  };
  int* head = &named_by_[static_cast<size_t>(id)];
  std::vector<NodeId> naming;
  for (int at = *head; at >= 0; at = mentions_[static_cast<size_t>(at)].next)
    naming.push_back(mentions_[static_cast<size_t>(at)].by);
  std::sort(naming.begin(), naming.end());
  naming.erase(std::unique(naming.begin(), naming.end()), naming.end());
  std::erase_if(naming, [&](NodeId by) { return !names(by); });
  // Nodes that no longer name `id` are dropped from its list.
  int at = *head;
  for (NodeId by : naming) {
    *head = at;
    mentions_[static_cast<size_t>(at)].by = by;
    head = &mentions_[static_cast<size_t>(at)].next;
    at = *head;
  }
  *head = -1;
  return naming;
}

std::vector<NodeId> Graph::UsersOf(NodeId id) {
  std::vector<NodeId> users = Naming(id);
  std::erase_if(users, [&](NodeId by) {
    const std::vector<NodeId>& in = node(by).inputs;
    return std::find(in.begin(), in.end(), id) == in.end();
  });
  return users;
}

std::vector<size_t> Graph::OutputsAt(NodeId id) {
  Index();
  const auto ports = outputs_of_.find(id);
  if (ports == outputs_of_.end()) return {};
  std::vector<size_t>& list = ports->second;
  std::erase_if(list, [&](size_t port) { return outputs[port].node != id; });
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

bool Graph::IsOutput(NodeId id) { return !OutputsAt(id).empty(); }

bool Graph::IsNeeded(NodeId id) {
  if (IsOutput(id)) return true;
  const Node& n = node(id);
  if (HasEffect(n)) return true;
  const auto among = [&](const std::vector<NodeId>& list) {
    return std::find(list.begin(), list.end(), id) != list.end();
  };
  // If many nodes name the node, the first one usually decides.
  for (int at = named_by_[static_cast<size_t>(id)]; at >= 0; at = mentions_[static_cast<size_t>(at)].next) {
    const NodeId by = mentions_[static_cast<size_t>(at)].by;
    if (by >= size() || node(by).dead) continue;
    if (among(node(by).inputs) || among(node(by).strong_after)) return true;
  }
  return false;
}

void Graph::Bury(Node* n, bool ordered) {
  Changed();
  // The order that weak edges gave through this node still holds between the nodes that remain.
  const std::vector<NodeId> before = n->weak_after;
  Touch(n->id);
  n->dead = true;
  if (!ordered) return;
  for (NodeId by : Naming(n->id)) {
    Touch(by);
    RedirectControl(by, &node(by).weak_after, n->id, kNoNode, before);
  }
}

}  // namespace rondo::ir
