#include "compiler/passes/rewrite.h"

namespace rondo::passes {

Rewrite::Rewrite(pattern::Pattern before, pattern::Pattern after, std::function<bool(Match&)> when)
    : before(std::move(before)), after([after = std::move(after), when = std::move(when)](Match& match) {
        return when && !when(match) ? kNoNode : match.Make(after);
      }) {}

namespace {

// The rewrite that replaced the node, or -1.
int ReplaceOne(Graph* graph, const std::vector<Rewrite>& rewrites, const PatternIndex& index, Match* match,
               NodeId id) {
  for (size_t r : index.At(graph->node(id))) {
    if (!match->At(rewrites[r].before, id)) continue;
    const NodeId made = graph->size(), instead = rewrites[r].after(*match);
    const bool replaces = instead != kNoNode && instead != id && graph->CanReplace(id, instead);
    if (replaces) graph->Replace(id, instead);
    std::vector<NodeId> unused;
    for (NodeId n = made; n < graph->size(); ++n) unused.push_back(n);
    if (!unused.empty()) graph->RemoveUnused(std::move(unused));
    if (replaces) return static_cast<int>(r);
  }
  return -1;
}

}  // namespace

std::vector<int64_t> Apply(Graph* graph, const std::vector<Rewrite>& rewrites, int sweeps) {
  PatternIndex index;
  for (const Rewrite& rewrite : rewrites) index.Add(rewrite.before);
  std::vector<int64_t> counts(rewrites.size(), 0);
  for (bool changed = true; changed && sweeps > 0; --sweeps) {
    changed = false;
    Match match(graph);
    for (NodeId id : graph->TopologicalOrder()) {
      if (graph->node(id).dead) continue;
      const int by = ReplaceOne(graph, rewrites, index, &match, id);
      if (by < 0) continue;
      ++counts[static_cast<size_t>(by)];
      changed = true;
    }
    Tidy(graph);
  }
  return counts;
}

}  // namespace rondo::passes
