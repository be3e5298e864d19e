// CutRows: cuts collectives, and the row-wise nodes around them, into chunks of rows.
//
// Nothing can overlap a collective that all later work waits for. With two chunks, the rows of one are
// exchanged while those of the other are computed. If a reader needs the whole result, its chunks are in one
// tensor, each computed in its place. row_shardings.h decides which nodes are cut. Every device of a program
// must cut the same collectives into the same numbers of chunks.
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

// The same around `node`, of a compact graph, without cutting collectives: its rows and those of the row-wise
// nodes before and after it are computed chunk by chunk, so that fewer are alive at once. Returns how many
// nodes have become several; 0: `node` has no rows that `chunks` divides, and the graph is as it was.
Result<int64_t> CutRowsAround(ir::Graph* graph, ir::NodeId node, int64_t chunks);

// The collectives of a graph, in the order in which they start.
std::vector<ir::NodeId> CollectivesOf(const ir::Graph& graph);

}  // namespace rondo::shard
