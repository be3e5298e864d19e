#include "compiler/shard/cut_rows.h"

#include <map>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/node_annotation.h"
#include "compiler/ir/versions.h"
#include "compiler/shard/local_view.h"
#include "compiler/shard/row_shardings.h"

namespace rondo::shard {
namespace {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

class Cutter {
 public:
  Cutter(const Graph& graph, const RowShardings& shardings, int64_t chunks)
      : g_(graph),
        shardings_(shardings),
        chunks_(chunks),
        whole_(static_cast<size_t>(graph.size()), kNoNode),
        runs_(static_cast<size_t>(graph.size())) {}

  Result<Graph> Run() {
    out_.name = g_.name;
    out_.ordered = g_.ordered;
    out_.annotated = true;
    out_.states = g_.states;
    out_.donations = g_.donations;
    out_.folding = g_.folding;
    for (const ir::GraphInput& input : g_.inputs) {
      whole_[At(input.node)] = out_.Add(g_.node(input.node));
      out_.inputs.push_back({input.name, whole_[At(input.node)]});
    }
    for (NodeId id = 0; id < g_.size(); ++id) {
      const Op op = g_.node(id).op;
      if (op == Op::kInput || op == Op::kView) continue;
      if (shardings_.cut[At(id)]) {
        MakeChunks(id);
      } else {
        MakeWhole(id);
      }
    }
    for (const ir::GraphOutput& output : g_.outputs)
      out_.outputs.push_back({output.name, Whole(output.node)});
    const std::string late = ir::OrderStates(&out_);
    if (!late.empty()) return Status::Error(Code::kInternal, "%s", late.c_str());
    out_.RemoveDead();
    out_.Compact();
    return std::move(out_);
  }

 private:
  static size_t At(NodeId id) { return static_cast<size_t>(id); }
  bool IsCut(NodeId id) const { return shardings_.cut[At(id)]; }
  const Rule& RuleOf(NodeId id) const { return shardings_.rules[At(id)]; }

  ir::Builder BuilderFor(const Node& from) {
    ir::Builder b(&out_);
    b.FoldConstants(false);
    b.SetSources(from.sources);
    return b;
  }

  // ------------------------------------------------------------------------------------- nodes

  // Redirects control edges to the new nodes; collectives keep their order.
  void Order(const Node& from, Node* node) {
    const auto follow = [&](const std::vector<NodeId>& before, std::vector<NodeId>* list) {
      list->clear();
      for (NodeId id : before) {
        if (node->op == Op::kCollective && g_.node(id).op == Op::kCollective) continue;
        const std::vector<NodeId>& now = runs_[At(g_.BaseOf(id))];
        list->insert(list->end(), now.begin(), now.end());
      }
    };
    follow(from.weak_after, &node->weak_after);
    follow(from.strong_after, &node->strong_after);
    if (node->op == Op::kCollective && last_collective_ != kNoNode)
      node->weak_after.push_back(last_collective_);
  }

  NodeId Add(NodeId id, Node node) {
    Order(g_.node(id), &node);
    const bool collective = node.op == Op::kCollective;
    const NodeId made = out_.Add(std::move(node));
    if (collective) last_collective_ = made;
    runs_[At(id)].push_back(made);
    return made;
  }

  void MakeWhole(NodeId id) {
    Node node = g_.node(id);
    for (NodeId& input : node.inputs) input = Whole(input);
    whole_[At(id)] = Add(id, std::move(node));
  }

  void MakeChunks(NodeId id) {
    const Node& from = g_.node(id);
    const Rule& rule = RuleOf(id);
    std::vector<NodeId> made;
    for (int64_t c = 0; c < chunks_; ++c) {
      Node node = from;
      node.name.clear();
      node.annotations[kChunkKey] = std::to_string(c + 1) + " of " + std::to_string(chunks_);
      for (size_t i = 0; i < from.inputs.size(); ++i) node.inputs[i] = Input(from, i, c);
      if (shardings_.in_turn[At(id)]) {
        if (c > 0) node.inputs[0] = made.back();
      } else {
        node.shape = LocalShape(from.shape, rule.output, chunks_);
      }
      if (from.op == Op::kIndexedRead || from.op == Op::kIndexedWrite) Localise(from, rule, c, &node);
      made.push_back(Add(id, std::move(node)));
    }
    if (shardings_.in_turn[At(id)]) {
      whole_[At(id)] = made.back();
    } else {
      chunk_[{id, rule.output}] = std::move(made);
    }
  }

  void Localise(const Node& from, const Rule& rule, int64_t c, Node* node) const {
    auto& attrs = node->As<ir::IndexedAttrs>();
    const Sharding accessed = from.op == Op::kIndexedRead ? rule.output : rule.inputs[1];
    const int64_t elements = g_.node(from.inputs[0]).shape.elements();
    const auto local = LocaliseIndexed(attrs, elements, rule.inputs[0], accessed, chunks_, c);
    attrs.map = local->map;
    for (size_t k = 0; k < attrs.dims.size(); ++k) attrs.dims[k].stride = local->strides[k];
  }

  NodeId Input(const Node& from, size_t slot, int64_t c) {
    const Sharding sharding = RuleOf(from.id).inputs[slot];
    return sharding.is_split() ? Chunk(from.inputs[slot], sharding, c) : Whole(from.inputs[slot]);
  }

  // ------------------------------------------------------------------------------------- values

  // Chunk `c` of `id` in `sharding`: as computed, or as a view of the whole value.
  NodeId Chunk(NodeId id, Sharding sharding, int64_t c) {
    std::vector<NodeId>& known = chunk_[{id, sharding}];
    if (known.empty()) known.assign(static_cast<size_t>(chunks_), kNoNode);
    if (known[static_cast<size_t>(c)] != kNoNode) return known[static_cast<size_t>(c)];
    const NodeId made = Show(id, sharding, c);
    return chunk_[{id, sharding}][static_cast<size_t>(c)] = made;
  }

  NodeId Show(NodeId id, Sharding sharding, int64_t c) {
    const Node& node = g_.node(id);
    ir::Builder b = BuilderFor(node);
    const NodeId base = g_.BaseOf(id);
    const int64_t elements = g_.node(base).shape.elements();
    if (node.op == Op::kView && IsCut(id) && IsCut(base) && RuleOf(id).output == sharding) {
      const Sharding behind = RuleOf(id).inputs[0];
      if (behind == RuleOf(base).output && !shardings_.in_turn[At(base)]) {
        const auto view = LocalView(g_.ViewOf(id), elements, behind, sharding, chunks_, c);
        return b.ViewNode(Chunk(base, behind, c), *view);
      }
    }
    return b.ViewNode(Whole(base), *LocalView(g_.ViewOf(id), elements, kWhole, sharding, chunks_, c));
  }

  NodeId Whole(NodeId id) {
    NodeId& known = whole_[At(id)];
    if (known != kNoNode) return known;
    const Node& node = g_.node(id);
    if (node.op == Op::kView) {
      ir::Builder b = BuilderFor(node);
      return known = b.ViewNode(Whole(g_.BaseOf(id)), g_.ViewOf(id));
    }
    return known = Join(id);
  }

  // Concatenates the chunks along the dim that was cut, or else along the runs of their sharding.
  NodeId Join(NodeId id) {
    const Node& node = g_.node(id);
    const Sharding sharding = RuleOf(id).output;
    const SplitDim split = DimOf(node.shape, sharding, chunks_);
    const bool at_once = split.inner * chunks_ == node.shape[split.dim];
    const Shape part({node.shape.elements() / (sharding.run * chunks_), 1, sharding.run});
    ir::Builder b = BuilderFor(node);
    std::vector<NodeId> pieces;
    for (int64_t c = 0; c < chunks_; ++c) {
      const NodeId piece = Chunk(id, sharding, c);
      pieces.push_back(at_once ? piece : b.Reshape(piece, part));
    }
    return b.Reshape(b.Concat(pieces, at_once ? split.dim : 1), node.shape);
  }

  const Graph& g_;
  const RowShardings& shardings_;
  const int64_t chunks_;
  Graph out_;
  std::vector<NodeId> whole_;  // by node of the old graph; set when it is needed
  std::map<std::pair<NodeId, Sharding>, std::vector<NodeId>> chunk_;  // the chunks, by node and sharding
  std::vector<std::vector<NodeId>> runs_;  // by node of the old graph: the new nodes that do its work
  NodeId last_collective_ = kNoNode;
};

}  // namespace

std::vector<NodeId> CollectivesOf(const Graph& graph) {
  std::vector<NodeId> collectives;
  for (NodeId id : graph.TopologicalOrder()) {
    if (graph.node(id).op == Op::kCollective) collectives.push_back(id);
  }
  return collectives;
}

namespace {

// Cuts `graph`, a compact one, as `shardings` say. Returns how many nodes have become several.
Result<int64_t> CutAs(const RowShardings& shardings, int64_t chunks, Graph* graph) {
  int64_t nodes = 0;
  for (NodeId id = 0; id < graph->size(); ++id)
    nodes += shardings.cut[static_cast<size_t>(id)] && graph->node(id).op != Op::kView;
  if (nodes == 0) return nodes;
  RONDO_ASSIGN_OR_RETURN(*graph, Cutter(*graph, shardings, chunks).Run());
  return nodes;
}

}  // namespace

Result<CutCollectives> CutRows(Graph* graph, int64_t chunks, const std::vector<bool>& leave) {
  graph->RemoveDead();
  graph->Compact();
  const std::vector<NodeId> collectives = CollectivesOf(*graph);
  std::vector<NodeId> chosen;
  for (size_t c = 0; c < collectives.size(); ++c) {
    if (c >= leave.size() || !leave[c]) chosen.push_back(collectives[c]);
  }
  const RowShardings shardings = FindRowShardings(*graph, chosen, chunks);
  CutCollectives result;
  for (NodeId id : collectives) result.cut.push_back(shardings.cut[static_cast<size_t>(id)]);
  RONDO_ASSIGN_OR_RETURN(result.nodes, CutAs(shardings, chunks, graph));
  return result;
}

Result<int64_t> CutRowsAround(Graph* graph, NodeId node, int64_t chunks) {
  return CutAs(FindRowShardings(*graph, {node}, chunks), chunks, graph);
}

}  // namespace rondo::shard
