#include "compiler/ir/versions.h"

#include <algorithm>

#include "compiler/ir/overlap.h"
#include "compiler/ir/rebase.h"

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

bool Region::Meets(const Region& other) const {
  return view_.steps.empty() || other.view_.steps.empty() || MayOverlap(view_, other.view_);
}

Versions::Versions(const Graph& graph, NodeId storage) {
  Add({storage, kNoNode, DenseView(graph.node(storage).shape), Region(View()), {}});
}

Versions::Versions(const Graph& graph, const std::vector<NodeId>& chain) : Versions(graph, chain[0]) {
  for (size_t i = 1; i < chain.size(); ++i) AddWrite(graph, chain[i]);
}

void Versions::Add(Version version) {
  std::vector<bool> contents(all_.size() + 1, false);
  contents[all_.size()] = true;
  for (size_t from : version.made_of) {
    for (size_t v = 0; v < contents_[from].size(); ++v) contents[v] = contents[v] || contents_[from][v];
  }
  contents_.push_back(std::move(contents));
  numbers_.emplace(version.node, all_.size());
  all_.push_back(std::move(version));
}

void Versions::AddWrite(const Graph& graph, NodeId node) {
  const VersionStep step = VersionStepOf(graph, node);
  const NodeId data = graph.node(step.runs).inputs[step.slot];
  const size_t of = *NumberOf(graph.BaseOf(data));
  const View place = Reshape(Compose(all_[of].place, graph.ViewOf(data)), graph.node(node).shape);
  Region written(place);
  if (graph.node(node).op == Op::kIndexedWrite) {
    IndexedAttrs attrs = graph.node(node).As<IndexedAttrs>();
    const bool whole = IsDense(place, graph.node(all_[0].node).shape.elements());
    if (whole || Rebase(place, &attrs)) written = Region::OfWrite(attrs);
  }
  Add({node, step.runs, place, std::move(written), {of}});
}

void Versions::AddJoin(const Graph& graph, NodeId node) {
  const Node& join = graph.node(node);
  Add({node,
       kNoNode,
       DenseView(join.shape),
       Region(View()),
       {*NumberOf(graph.BaseOf(join.inputs[0])), *NumberOf(graph.BaseOf(join.inputs[1]))}});
}

std::optional<size_t> Versions::NumberOf(NodeId node) const {
  const auto found = numbers_.find(node);
  return found == numbers_.end() ? std::nullopt : std::optional<size_t>(found->second);
}

Region Versions::ReadBy(const Graph& graph, NodeId node, size_t slot, size_t number) const {
  return Region(Compose(all_[number].place, graph.ViewOf(graph.node(node).inputs[slot])));
}

bool Versions::IsTarget(const Graph& graph, NodeId node, size_t slot) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Version& version) {
    return version.runs == node && VersionStepOf(graph, version.node).slot == slot;
  });
}

namespace {

std::string Described(const Node& node) { return node.sources.empty() ? Name(node.op) : node.sources[0]; }

// Adds the edges of OrderReaders one by one, so that each query sees the edges added before.
class ReaderOrder {
 public:
  ReaderOrder(Graph* graph, const Versions& versions) : g_(*graph), versions_(versions) {}

  std::string Run() {
    for (NodeId id : Readers()) {
      const std::vector<NodeId> inputs = g_.node(id).inputs;
      for (size_t k = 0; k < inputs.size(); ++k) {
        const std::optional<size_t> version = versions_.NumberOf(g_.BaseOf(inputs[k]));
        if (!version) continue;
        std::string late = Order(id, k, *version);
        if (late.empty()) continue;
        for (NodeId write : added_) g_.node(write).weak_after.pop_back();
        return late;
      }
    }
    return "";
  }

 private:
  // What runs and reads versions, directly or through a view, in id order.
  std::vector<NodeId> Readers() const {
    std::vector<NodeId> readers;
    const auto add = [&](NodeId reader) {
      const std::optional<size_t> version = versions_.NumberOf(reader);
      const bool joins = version && versions_[*version].runs == kNoNode;
      if (g_.node(reader).op != Op::kCallResult && !joins) readers.push_back(reader);
    };
    for (size_t v = 0; v < versions_.size(); ++v) {
      for (NodeId user : g_.UsersOf(versions_[v].node)) {
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

  // The version that `reader` makes of its input `slot`; if none, the number of versions.
  size_t MadeBy(NodeId reader, size_t slot) const {
    size_t v = 0;
    while (v < versions_.size() &&
           (versions_[v].runs != reader || VersionStepOf(g_, versions_[v].node).slot != slot))
      ++v;
    return v;
  }

  std::string Order(NodeId reader, size_t slot, size_t version) {
    const size_t made = MadeBy(reader, slot);
    const bool writes = made < versions_.size();
    const Region region = writes ? versions_[made].written : versions_.ReadBy(g_, reader, slot, version);
    for (size_t v = 1; v < versions_.size(); ++v) {
      const NodeId write = versions_[v].runs;
      const bool later = writes && versions_.Has(v, made);  // by its data
      if (write == kNoNode || reader == write || later || versions_.Has(version, v) ||
          !region.Meets(versions_[v].written))
        continue;
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
  const Versions& versions_;
  std::vector<NodeId> added_;  // the nodes that got an edge, once per edge
};

}  // namespace

std::string OrderReaders(Graph* graph, const Versions& versions) {
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
    std::string late = OrderReaders(graph, Versions(*graph, versions));
    if (!late.empty()) return late;
  }
  return "";
}

}  // namespace rondo::ir
