#include "compiler/import/kept_regions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "compiler/import/executable_nodes.h"

namespace rondo::importer {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;

// Nodes with the annotation, in regions.
class Regions {
 public:
  explicit Regions(Graph* graph) : g_(*graph), parent_(static_cast<size_t>(graph->size()), kNoNode) {}

  Status Find() {
    for (NodeId id = 0; id < g_.size(); ++id) {
      const Node& node = g_.node(id);
      const auto keep = node.annotations.find("keep");
      if (node.dead || keep == node.annotations.end()) continue;
      if (keep->second != "together") {
        return Status::Error(Code::kInvalidArgument, "keep: %.50s; nodes are kept `together`",
                             keep->second.c_str())
            .FromNode(TextOf(node));
      }
      if (IsExecutable(node)) parent_[static_cast<size_t>(id)] = id;
    }
    for (NodeId id = 0; id < g_.size(); ++id) {
      for (NodeId maker : MakersFor(id)) {
        if (IsKept(id) && IsKept(maker)) parent_[static_cast<size_t>(RootOf(id))] = RootOf(maker);
      }
    }
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (IsKept(id)) members_[RootOf(id)].push_back(id);
    }
    return Status::Ok();
  }

  Status Fence() {
    int number = 0;
    for (const auto& [root, members] : members_) {
      for (NodeId id : members) g_.node(id).annotations["keep"] = "together " + std::to_string(number);
      ++number;
    }
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (!IsKept(id)) g_.node(id).annotations.erase("keep");  // views and constants, which run nothing
    }
    for (const auto& [root, members] : members_) RONDO_RETURN_IF_ERROR(FenceOne(root, members));
    return Status::Ok();
  }

 private:
  bool IsKept(NodeId id) const { return parent_[static_cast<size_t>(id)] != kNoNode; }
  NodeId RootOf(NodeId id) {
    while (parent_[static_cast<size_t>(id)] != id) {
      NodeId& up = parent_[static_cast<size_t>(id)];
      up = parent_[static_cast<size_t>(up)];
      id = up;
    }
    return id;
  }
  // What must have run before `id`: who makes its inputs, and where its control edges come from.
  std::vector<NodeId> MakersFor(NodeId id) const {
    std::vector<NodeId> makers;
    const Node& node = g_.node(id);
    for (const auto* list : {&node.inputs, &node.weak_after, &node.strong_after}) {
      for (NodeId in : *list) {
        const NodeId maker = MakerOf(g_, in);
        if (maker != kNoNode && maker != id) makers.push_back(maker);
      }
    }
    return makers;
  }
  bool Has(NodeId root, NodeId id) { return IsKept(id) && RootOf(id) == root; }

  // What is before it precedes those of its nodes that begin it; what is after it follows those that end it.
  Status FenceOne(NodeId root, const std::vector<NodeId>& members) {
    std::set<NodeId> before, after, inner;  // inner: some member waits for them
    std::vector<NodeId> first;
    for (NodeId id : members) {
      bool begins = true;
      for (NodeId maker : MakersFor(id)) {
        const bool within = Has(root, maker);
        (within ? inner : before).insert(maker);
        begins = begins && !within;
      }
      if (begins) first.push_back(id);
    }
    if (users_.empty()) FindUsers();
    for (NodeId id : members) {
      for (NodeId user : users_[static_cast<size_t>(id)]) {
        if (!Has(root, user)) after.insert(user);
      }
    }
    for (NodeId late : first) {
      for (NodeId early : before) RONDO_RETURN_IF_ERROR(Order(late, early));
    }
    for (NodeId early : members) {
      if (inner.count(early) != 0) continue;
      for (NodeId late : after) RONDO_RETURN_IF_ERROR(Order(late, early));
    }
    return Status::Ok();
  }

  void FindUsers() {
    users_.resize(static_cast<size_t>(g_.size()));
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (g_.node(id).dead || !IsExecutable(g_.node(id))) continue;
      for (NodeId maker : MakersFor(id)) users_[static_cast<size_t>(maker)].push_back(id);
    }
  }

  Status Order(NodeId late, NodeId early) {
    if (g_.Reaches(late, early)) {
      return Status::Error(Code::kInvalidArgument, "nodes are to be kept together that cannot be: %s",
                           CycleText(g_, late, early).c_str());
    }
    g_.RunAfter(late, early);
    g_.ordered = true;
    return Status::Ok();
  }

  Graph& g_;
  std::vector<NodeId> parent_;  // by node: towards the root of its region; kNoNode: in none
  std::map<NodeId, std::vector<NodeId>> members_;  // by root
  std::vector<std::vector<NodeId>> users_;         // by node: who must run after it
};

}  // namespace

Status KeepRegions(Graph* graph) {
  const auto says = [&](NodeId id) { return graph->node(id).annotations.count("keep") > 0; };
  bool any = false;
  for (NodeId id = 0; id < graph->size() && !any; ++id) any = says(id);
  if (!any) return Status::Ok();
  Regions regions(graph);
  RONDO_RETURN_IF_ERROR(regions.Find());
  return regions.Fence();
}

}  // namespace rondo::importer
