#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"

namespace rondo::passes {

Result<PassResult> RemoveDead(ir::Graph* graph, const PassOptions&) {
  PassResult result;
  result.changes = graph->RemoveDead();
  graph->Compact();
  result.text = Count(result.changes, "dead node");
  return result;
}

}  // namespace rondo::passes
