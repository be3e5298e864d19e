#include "compiler/passes/passes.h"

namespace rondo::passes {

Result<PassResult> CleanUp(ir::Graph* graph, const PassOptions& options) {
  PassResult total;
  for (auto* pass : {FoldConstants, Simplify, EliminateCommonSubexpressions, RemoveDead}) {
    RONDO_ASSIGN_OR_RETURN(PassResult result, pass(graph, options));
    total.changes += result.changes;
    if (result.changes == 0 || result.text.empty()) continue;
    total.text += (total.text.empty() ? "" : "\n") + result.text;
  }
  return total;
}

}  // namespace rondo::passes
