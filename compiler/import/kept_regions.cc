#include "compiler/import/kept_regions.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/import/annotations.h"
#include "compiler/import/executable_nodes.h"
#include "compiler/ir/node_annotation.h"
#include "compiler/ir/region.h"

namespace rondo::importer {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;

constexpr char kTogether[] = "#";  // of nodes kept together; a place without a name

bool IsKept(const Node& node) { return node.annotations.count("keep") != 0; }

std::string RegionText(const Node& node) {
  const auto region = node.annotations.find(kRegionKey);
  return region == node.annotations.end() ? "in no region" : "in region " + ir::NameOfRegion(region->second);
}

class Places {
 public:
  explicit Places(Graph* graph) : g_(*graph), given_(Size()), at_(Size()), parent_(Size(), kNoNode) {}

  Status Find() {
    std::vector<NodeId> nodes;
    for (NodeId id = 0; id < g_.size(); ++id) {
      Node& node = g_.node(id);
      if (node.dead || g_.IsConstant(id) || node.op == ir::Op::kInput) continue;
      std::vector<std::string>& given = given_[static_cast<size_t>(id)];
      if (const auto region = node.annotations.find(kRegionKey); region != node.annotations.end())
        given = ir::PlacesIn(region->second);
      if (IsKept(node)) given.emplace_back(kTogether);
      if (!given.empty()) nodes.push_back(id);
    }
    for (NodeId id : nodes) RONDO_RETURN_IF_ERROR(CheckKept(id));
    Split(nodes, 0);
    return Status::Ok();
  }

  // Assigns each node its places, and fences each place with control edges.
  Status Fence() {
    std::vector<std::vector<std::string>> names(Size());
    std::map<std::string, int> count;  // number of places by region
    for (const Place& place : places_) {
      const std::string name = given_[static_cast<size_t>(place.nodes[0])][place.level];
      const std::string own = name.substr(0, name.find('#'));
      const std::string outer =
          ir::NameOfRegion(ir::RegionOfPlaces(names[static_cast<size_t>(place.nodes[0])]));
      const std::string number = std::to_string(count[outer + "/" + own]++);
      for (NodeId id : place.nodes) names[static_cast<size_t>(id)].push_back(own + "#" + number);
    }
    for (NodeId id = 0; id < g_.size(); ++id) {
      std::map<std::string, std::string>& said = g_.node(id).annotations;
      said.erase("keep");
      said.erase(kRegionKey);
      if (const auto& all = names[static_cast<size_t>(id)]; !all.empty())
        said[kRegionKey] = ir::RegionOfPlaces(all);
    }
    FindUsers();
    for (size_t place = 0; place < places_.size(); ++place)
      RONDO_RETURN_IF_ERROR(FenceOne(static_cast<int>(place)));
    return Status::Ok();
  }

 private:
  struct Place {
    size_t level = 0;  // how many places hold it
    std::vector<NodeId> nodes;
  };

  size_t Size() const { return static_cast<size_t>(g_.size()); }
  NodeId RootOf(NodeId id) {
    while (parent_[static_cast<size_t>(id)] != id) {
      NodeId& up = parent_[static_cast<size_t>(id)];
      up = parent_[static_cast<size_t>(up)];
      id = up;
    }
    return id;
  }

  // Checks that nodes that exchange values and must be kept together lie in one region.
  Status CheckKept(NodeId id) {
    for (NodeId maker : MakersFor(id)) {
      const auto &own = given_[static_cast<size_t>(id)], &other = given_[static_cast<size_t>(maker)];
      if (!IsKept(g_.node(id)) || !IsKept(g_.node(maker)) || own == other) continue;
      return Status::Error(Code::kInvalidArgument,
                           "%.300s and %.300s are to be kept together, but the first is %s and the second %s",
                           TextOf(g_.node(maker)).c_str(), TextOf(g_.node(id)).c_str(),
                           RegionText(g_.node(maker)).c_str(), RegionText(g_.node(id)).c_str())
          .FromNode(TextOf(g_.node(id)));
    }
    return Status::Ok();
  }

  // Splits the nodes of one place, or of none, into the places inside it.
  void Split(const std::vector<NodeId>& nodes, size_t level) {
    const auto given = [&](NodeId id) { return given_[static_cast<size_t>(id)]; };
    std::map<std::string, NodeId> first;  // first node of each place of a call
    std::vector<NodeId> inner;
    for (NodeId id : nodes) {
      if (given(id).size() > level) inner.push_back(id);
    }
    for (NodeId id : inner) parent_[static_cast<size_t>(id)] = id;
    const auto join = [&](NodeId id, NodeId other) {
      const bool alike =
          parent_[static_cast<size_t>(other)] != kNoNode && given(other)[level] == given(id)[level];
      if (alike) parent_[static_cast<size_t>(RootOf(id))] = RootOf(other);
    };
    for (NodeId id : inner) {
      for (NodeId maker : MakersFor(id)) join(id, maker);
      for (NodeId input : g_.node(id).inputs) join(id, input);
      if (given(id)[level].find(kCallPlace) != std::string::npos)
        join(id, first.emplace(given(id)[level], id).first->second);
    }
    std::map<NodeId, std::vector<NodeId>> found;  // by root
    for (NodeId id : inner) found[RootOf(id)].push_back(id);
    for (NodeId id : inner) parent_[static_cast<size_t>(id)] = kNoNode;
    for (const bool runs : {true, false}) {  // places of views alone come last
      for (const auto& [root, of_place] : found) {
        const auto executes = [&](NodeId id) { return IsExecutable(g_.node(id)); };
        if (std::any_of(of_place.begin(), of_place.end(), executes) != runs) continue;
        for (NodeId id : of_place) at_[static_cast<size_t>(id)].push_back(static_cast<int>(places_.size()));
        places_.push_back({level, of_place});
        Split(of_place, level + 1);
      }
    }
  }

  // The nodes that must run before `id`: the producers of its inputs, and the sources of its control edges.
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
  bool Has(int place, NodeId id) const {
    const std::vector<int>& of_node = at_[static_cast<size_t>(id)];
    return std::find(of_node.begin(), of_node.end(), place) != of_node.end();
  }

  // The nodes before the place precede its first nodes, and the nodes after it follow its last nodes.
  Status FenceOne(int place) {
    std::set<NodeId> before, after, inner;  // inner: members that some member waits for
    std::vector<NodeId> members, first;
    for (NodeId id : places_[static_cast<size_t>(place)].nodes) {
      if (IsExecutable(g_.node(id))) members.push_back(id);
    }
    for (NodeId id : members) {
      bool begins = true;
      for (NodeId maker : MakersFor(id)) {
        const bool within = Has(place, maker);
        (within ? inner : before).insert(maker);
        begins = begins && !within;
      }
      if (begins) first.push_back(id);
    }
    for (NodeId id : members) {
      for (NodeId user : users_[static_cast<size_t>(id)]) {
        if (!Has(place, user)) after.insert(user);
      }
    }
    for (NodeId late : first) {
      for (NodeId early : before) RONDO_RETURN_IF_ERROR(Order(place, late, early));
    }
    for (NodeId early : members) {
      if (inner.count(early) != 0) continue;
      for (NodeId late : after) RONDO_RETURN_IF_ERROR(Order(place, late, early));
    }
    return Status::Ok();
  }

  void FindUsers() {
    users_.resize(Size());
    for (NodeId id = 0; id < g_.size(); ++id) {
      if (g_.node(id).dead || !IsExecutable(g_.node(id))) continue;
      for (NodeId maker : MakersFor(id)) users_[static_cast<size_t>(maker)].push_back(id);
    }
  }

  Status Order(int place, NodeId late, NodeId early) {
    if (g_.Reaches(late, early)) {
      const Node& node = g_.node(places_[static_cast<size_t>(place)].nodes[0]);
      std::vector<std::string> all = ir::PlacesIn(node.annotations.at(kRegionKey));
      all.resize(places_[static_cast<size_t>(place)].level + 1);
      const std::string region = ir::RegionOfPlaces(all);
      const std::string what = ir::IsKeptTogether(region)
                                   ? "nodes are to be kept together that cannot be"
                                   : "region " + ir::NameOfRegion(region) + " cannot run as one";
      return Status::Error(Code::kInvalidArgument, "%s: %s", what.c_str(),
                           CycleText(g_, late, early).c_str());
    }
    g_.RunAfter(late, early);
    g_.ordered = true;
    return Status::Ok();
  }

  Graph& g_;
  std::vector<std::vector<std::string>> given_;  // by node: the places given to it, outermost first
  std::vector<std::vector<int>> at_;             // by node: the places that hold it, outermost first
  std::vector<Place> places_;                    // each place follows those that hold it
  std::vector<NodeId> parent_;  // while places are found: a link towards the root of the node's place
  std::vector<std::vector<NodeId>> users_;  // by node: the nodes that must run after it
};

}  // namespace

Status KeepRegions(Graph* graph) {
  bool any = false;
  for (NodeId id = 0; id < graph->size() && !any; ++id)
    any = IsKept(graph->node(id)) || graph->node(id).annotations.count(kRegionKey) != 0;
  if (!any) return Status::Ok();
  Places places(graph);
  RONDO_RETURN_IF_ERROR(places.Find());
  return places.Fence();
}

}  // namespace rondo::importer
