#include "compiler/import/executable_nodes.h"

#include <algorithm>
#include <unordered_map>

namespace rondo::importer {

using ir::Graph;
using ir::kNoNode;
using ir::Node;
using ir::NodeId;
using ir::Op;

namespace {

bool Has(const std::vector<NodeId>& list, NodeId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

// The shortest path from `late` back to `early`, both included; `late` depends on `early`.
std::vector<NodeId> WayBack(const Graph& graph, NodeId late, NodeId early) {
  std::unordered_map<NodeId, NodeId> from = {{late, kNoNode}};
  std::vector<NodeId> queue = {late};
  for (size_t next = 0; next < queue.size() && from.count(early) == 0; ++next) {
    const Node& node = graph.node(queue[next]);
    for (const auto* list : {&node.inputs, &node.weak_after, &node.strong_after}) {
      for (NodeId id : *list) {
        if (from.emplace(id, node.id).second) queue.push_back(id);
      }
    }
  }
  std::vector<NodeId> way;
  for (NodeId id = early; id != kNoNode; id = from[id]) way.push_back(id);
  std::reverse(way.begin(), way.end());
  return way;
}

}  // namespace

bool IsExecutable(const Node& node) {
  return !node.dead && node.op != Op::kInput && node.op != Op::kConstant && node.op != Op::kView &&
         node.op != Op::kIota && node.op != Op::kCallResult && node.op != Op::kLoopResult;
}

NodeId MakerOf(const Graph& graph, NodeId id) {
  id = graph.BaseOf(id);
  const Op op = graph.node(id).op;
  if (op == Op::kCallResult || op == Op::kLoopResult) id = graph.BaseOf(graph.node(id).inputs[0]);
  return IsExecutable(graph.node(id)) ? id : kNoNode;
}

std::string TextOf(const Node& node) { return node.sources.empty() ? ir::Name(node.op) : node.sources[0]; }

std::string CycleText(const Graph& graph, NodeId late, NodeId early) {
  std::string text = TextOf(graph.node(late)) + " is to run after " + TextOf(graph.node(early));
  const std::vector<NodeId> way = WayBack(graph, early, late);
  for (size_t i = 0; i + 1 < way.size(); ++i) {
    const Node &node = graph.node(way[i]), &before = graph.node(way[i + 1]);
    const bool reads = Has(node.inputs, before.id);
    if (reads && TextOf(node) == TextOf(before)) continue;
    text += "; " + TextOf(node) + (reads ? " reads what " : " is to run after ") + TextOf(before) +
            (reads ? " makes" : "");
  }
  return text;
}

}  // namespace rondo::importer
