#include "compiler/ir/versions.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/walk.h"

namespace rondo::ir {

VersionStep VersionStepOf(const Graph& graph, NodeId id) {
  const Node& n = graph.node(id);
  if (n.op == Op::kIndexedWrite) return {id, 0};
  if (n.op != Op::kCall && n.op != Op::kCallResult) return {};
  const CallAttrs& a = n.As<CallAttrs>();
  if (!a.info->IsVersion(a.output)) return {};
  return {n.op == Op::kCall ? id : n.inputs[0], a.info->SlotOf(a.info->output(a.output).alias)};
}

Region Region::OfVersion(const Graph& graph, NodeId version) {
  const Node& n = graph.node(version);
  return n.op == Op::kIndexedWrite ? OfWrite(n.As<IndexedAttrs>()) : Region(View());
}

Region Region::OfWrite(const IndexedAttrs& attrs) {
  if (!attrs.map.affine()) return Region(View());
  ViewStep step = attrs.map.steps[0];
  for (const IndexedDim& dim : attrs.dims) {
    int d = 0;
    while (d < step.shape.rank && step.shape[d] != 1) ++d;
    if (d == kMaxRank) return Region(View());
    if (d == step.shape.rank) ++step.shape.rank;
    step.shape[d] = dim.extent;
    step.strides[d] = dim.stride;
  }
  return Region(View{{step}});
}

bool Region::MayMeet(const Region& other) const {
  if (view_.steps.empty() || other.view_.steps.empty()) return true;
  const auto [low, high] = Bounds();
  const auto [other_low, other_high] = other.Bounds();
  return low <= other_high && other_low <= high;
}

bool Region::Meets(const Region& other) const {
  if (!MayMeet(other)) return false;
  if (view_.steps.empty() || other.view_.steps.empty()) return true;
  const int64_t high = Bounds().second, other_high = other.Bounds().second;
  constexpr int64_t kMostElements = 1 << 26;
  if (std::max(high, other_high) >= kMostElements) return true;
  std::vector<bool> here(static_cast<size_t>(std::max(high, other_high)) + 1, false);
  ForEachElement(view_, [&](int64_t, int64_t at) { here[static_cast<size_t>(at)] = true; });
  bool meets = false;
  ForEachElement(other.view_, [&](int64_t, int64_t at) { meets = meets || here[static_cast<size_t>(at)]; });
  return meets;
}

std::pair<int64_t, int64_t> Region::Bounds() const {
  if (view_.affine()) {
    const ViewStep& s = view_.steps[0];
    int64_t low = s.offset, high = s.offset;
    for (int d = 0; d < s.shape.rank; ++d) {
      int64_t reach = s.strides[d] * (s.shape[d] - 1);
      (reach > 0 ? high : low) += reach;
    }
    return {low, high};
  }
  int64_t low = INT64_MAX, high = 0;
  ForEachElement(view_, [&](int64_t, int64_t at) {
    low = std::min(low, at);
    high = std::max(high, at);
  });
  return {low, high};
}

namespace {

std::string Described(const Node& node) { return node.sources.empty() ? Name(node.op) : node.sources[0]; }

// Adds the edges of OrderReaders one by one, so that each query sees the edges added before.
class ReaderOrder {
 public:
  ReaderOrder(Graph* graph, const std::vector<NodeId>& versions) : g_(*graph), versions_(versions) {
    for (size_t v = 0; v < versions.size(); ++v) place_.emplace(versions[v], v);
  }

  std::string Run() {
    for (NodeId id : Readers()) {
      const std::vector<NodeId> inputs = g_.node(id).inputs;
      for (size_t k = 0; k < inputs.size(); ++k) {
        const auto version = place_.find(g_.BaseOf(inputs[k]));
        if (version == place_.end()) continue;
        const size_t v = version->second;
        const VersionStep step =
            v + 1 < versions_.size() ? VersionStepOf(g_, versions_[v + 1]) : VersionStep();
        bool next = step.runs == id && step.slot == k;
        if (next) continue;
        std::string late = Order(id, v, Region(g_.ViewOf(inputs[k])));
        if (late.empty()) continue;
        for (NodeId write : added_) g_.node(write).weak_after.pop_back();
        return late;
      }
    }
    return "";
  }

 private:
  // The readers of versions, directly or through a view, in id order.
  std::vector<NodeId> Readers() const {
    std::vector<NodeId> readers;
    const auto add = [&](NodeId reader) {
      if (g_.node(reader).op != Op::kCallResult) readers.push_back(reader);
    };
    for (NodeId version : versions_) {
      for (NodeId user : g_.UsersOf(version)) {
        if (g_.node(user).op != Op::kView) {
          add(user);
          continue;
        }
        for (NodeId reader : g_.UsersOf(user)) add(reader);
      }
    }
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    return readers;
  }

  std::string Order(NodeId reader, size_t version, const Region& region) {
    for (size_t v = version + 1; v < versions_.size(); ++v) {
      const NodeId write = VersionStepOf(g_, versions_[v]).runs;
      if (reader == write || !region.Meets(Region::OfVersion(g_, versions_[v]))) continue;
      if (g_.Reaches(write, reader)) {
        return Described(g_.node(reader)) + " reads what " + Described(g_.node(write)) +
               " has already replaced";
      }
      if (g_.Reaches(reader, write)) continue;
      g_.RunAfter(write, reader);
      added_.push_back(write);
    }
    return "";
  }

  Graph& g_;
  const std::vector<NodeId>& versions_;
  std::unordered_map<NodeId, size_t> place_;  // of each version in `versions_`
  std::vector<NodeId> added_;                 // the nodes that got an edge, once per edge
};

}  // namespace

std::string OrderReaders(Graph* graph, const std::vector<NodeId>& versions) {
  return ReaderOrder(graph, versions).Run();
}

std::string OrderStates(Graph* graph) {
  for (const StatePair& pair : graph->states) {
    const NodeId input = graph->inputs[static_cast<size_t>(pair.input)].node;
    std::vector<NodeId> versions;
    NodeId at = graph->outputs[static_cast<size_t>(pair.output)].node;
    while (at != input) {
      const VersionStep step = VersionStepOf(*graph, at);
      if (step.runs == kNoNode) break;
      versions.push_back(at);
      at = graph->node(step.runs).inputs[step.slot];
    }
    if (at != input || versions.empty()) continue;
    versions.push_back(input);
    std::reverse(versions.begin(), versions.end());
    std::string late = OrderReaders(graph, versions);
    if (!late.empty()) return late;
  }
  return "";
}

}  // namespace rondo::ir
