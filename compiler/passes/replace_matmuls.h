// What passes that rewrite one product at a time have in common.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"
#include "compiler/passes/match.h"

namespace rondo::passes {

// Replaces matmuls and convolutions by what `rewrite(id)` makes of them, and tidies the graph. Where it
// returns kNoNode, what it added is taken back. Returns how many were replaced.
template <typename Rewrite>
int64_t ReplaceMatmuls(ir::Graph* graph, Rewrite rewrite) {
  int64_t replaced = 0;
  for (ir::NodeId id : graph->TopologicalOrder()) {
    const ir::Op op = graph->node(id).op;
    if (op != ir::Op::kMatMul && op != ir::Op::kConv) continue;
    graph->Try();
    const ir::NodeId product = rewrite(id);
    if (product == ir::kNoNode || !graph->KeepsAnnotations(id, product)) {
      graph->TakeBack();
      continue;
    }
    graph->Keep();
    graph->Replace(id, product);
    ++replaced;
  }
  Tidy(graph);
  return replaced;
}

}  // namespace rondo::passes
