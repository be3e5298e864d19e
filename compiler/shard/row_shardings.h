// RowShardings: which nodes of a device's graph can be computed in chunks of rows, around collectives that
// exchange one chunk while another is computed.
//
// A chunk on one device corresponds to a share on several devices: the shardings of sharding.h and the rules
// of rules.h hold, with chunks in place of devices. Shardings spread from the collectives to all row-wise
// nodes: from residuals and norms through matmuls to attention, where queries are rows and keys are whole.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/rules.h"

namespace rondo::shard {

// By node.
struct RowShardings {
  std::vector<bool> cut;    // the node, or view, is one of its own for each chunk
  std::vector<Rule> rules;  // of those: the shardings of inputs and result
  // Of those: a write whose chunks change one tensor, one after another.
  std::vector<bool> in_turn;
};

// Begins at nodes `from` of `graph`, a compact one. Of collectives only these are cut. Nodes that annotations
// bind are left as they are.
RowShardings FindRowShardings(const ir::Graph& graph, const std::vector<ir::NodeId>& from, int64_t chunks);

}  // namespace rondo::shard
