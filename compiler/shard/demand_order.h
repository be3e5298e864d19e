// OrderByDemand: reorders a graph's nodes, so that each comes just before the node that needs it.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::shard {

// All nodes that are not dead, each behind what it reads and what its control edges name. Of what a node
// reads, that comes first which most bytes of weights lead to: what is computed from inputs alone (keys and
// values of an encoder's result, random numbers) comes with the layer that reads it, not before the first.
// Deterministic.
std::vector<ir::NodeId> OrderByDemand(const ir::Graph& graph);

}  // namespace rondo::shard
