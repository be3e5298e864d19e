#include "compiler/import/cache_encoding.h"

#include "compiler/ir/port_names.h"

namespace rondo::importer {

using ir::Graph;
using ir::Node;
using ir::NodeId;

std::optional<CacheEncoding> FindCacheEncoding(Graph* graph, const CachePorts& ports, NodeId cached,
                                               NodeId all) {
  CacheEncoding kept;
  for (const GrowingCache& cache : ports.caches) {
    const int at = ir::FindPort(graph->inputs, cache.past),
              present = ir::FindPort(graph->outputs, cache.present);
    if (at < 0 || present < 0) continue;
    const NodeId input = graph->inputs[static_cast<size_t>(at)].node,
                 output = graph->outputs[static_cast<size_t>(present)].node;
    if (graph->node(input).dtype != graph->node(output).dtype) continue;
    const auto before = Between(*graph, input, cached);
    if (!before) continue;
    const auto after = Between(*graph, all, output);
    if (!after || (before->empty() && after->empty())) continue;
    NodeId narrow = all;
    auto next = after->begin();
    // Nodes other than the cache's output may read the values only from `narrow` on.
    while (ByteSize(graph->node(narrow).dtype) > 2 && next != after->end()) {
      if (graph->UsersOf(narrow).size() != 1 || graph->IsOutput(narrow)) return std::nullopt;
      narrow = *next++;
    }
    kept.cache = at;
    kept.all = all;
    kept.before = *before;
    kept.first.assign(after->begin(), next);
    kept.second.assign(next, after->end());
    if (GivesBackAll(*graph, graph->node(narrow).dtype, kept.second, kept.before, kept.first)) return kept;
  }
  return std::nullopt;
}

void WriteAsKept(ir::Builder& b, const CacheEncoding& kept, NodeId rows,
                 const std::function<NodeId(NodeId rows)>& write) {
  Graph& graph = b.graph();
  const NodeId narrow = Apply(b, graph, kept.first, rows);
  const NodeId written = write(Apply(b, graph, kept.second, narrow));
  const NodeId read = Apply(b, graph, kept.first, Apply(b, graph, kept.before, written));
  const NodeId read_from = kept.first.empty() ? kept.all : kept.first.back();
  if (kept.second.empty()) {
    graph.Replace(read_from, written);
    return;
  }
  const NodeId last = kept.second.back();
  const Node& n = graph.node(last);
  for (NodeId other : graph.UsersOf(n.inputs[0])) {  // other nodes that do the same
    const Node& same = graph.node(other);
    if (other > last && same.op == n.op && same.inputs == n.inputs && same.dtype == n.dtype &&
        same.As<ir::PointwiseAttrs>().op == n.As<ir::PointwiseAttrs>().op)
      graph.Replace(other, written);
  }
  graph.Replace(last, written);
  graph.Replace(read_from, read);
}

}  // namespace rondo::importer
