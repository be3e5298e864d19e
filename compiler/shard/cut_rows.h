// CutRows: collectives, and what works row by row around them, in chunks of rows.
//
// Nothing can run beside a collective that everything behind it waits for. Of two chunks one can: while the
// rows of one are exchanged, those of the other are computed. Chunks of a result lie in one tensor where
// somebody reads all of it, each computed in its place. Which nodes are cut: row_shardings.h. Every device of
// a program must cut the same collectives into as many chunks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "core/status.h"

namespace rondo::shard {

struct CutCollectives {
  std::vector<bool> cut;  // by number among the graph's collectives
  int64_t nodes = 0;      // that have become several; views do not count
};

// `leave[c]`: collective c is not cut; may be shorter. Leaves a compact graph. Results are those of the graph
// given, to the bit where kernels for fewer rows compute a row alike.
Result<CutCollectives> CutRows(ir::Graph* graph, int64_t chunks, const std::vector<bool>& leave = {});

// The collectives of a graph, in the order in which they start.
std::vector<ir::NodeId> CollectivesOf(const ir::Graph& graph);

}  // namespace rondo::shard
