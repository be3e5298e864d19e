// The graph passes in the order in which the compiler runs them, checked after each.
#pragma once

#include <map>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/passes/pass.h"

namespace rondo::passes {

// Runs every pass of this folder's table and validates the graph after each. `reports` (may be null) gets
// each pass's result by name.
Status RunAllPasses(ir::Graph* graph, const PassOptions& options, std::map<std::string, PassResult>* reports);

// Counts in a graph after the passes.
struct Census {
  int64_t attentions = 0, with_limit = 0, with_mask = 0;
  int64_t concats = 0, writes = 0, reads = 0, products = 0;
  int64_t in_place = 0;            // writes in the chain from a state's input to its output
  int64_t states_chained = 0;      // states whose output is such a chain
  int64_t grouped_attentions = 0;  // with fewer key heads than query heads
};
Census Count(const ir::Graph& graph);

}  // namespace rondo::passes
