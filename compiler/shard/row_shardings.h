// RowShardings: which nodes of a device's graph can work in chunks of rows, around collectives that are to
// move one chunk while another is computed.
//
// A chunk is to one device what a share is to several: the shardings of sharding.h and the rules of rules.h
// hold, with chunks in place of devices. Shardings spread from the collectives to all who work row by row:
// from residuals and norms through matmuls to attention, whose queries are rows and whose keys are all there
// is. Pure.
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

// `collectives` are nodes of `graph`, a compact one: those that are to be cut; others never are. Nodes that
// annotations bind are left as they are.
RowShardings FindRowShardings(const ir::Graph& graph, const std::vector<ir::NodeId>& collectives,
                              int64_t chunks);

}  // namespace rondo::shard
