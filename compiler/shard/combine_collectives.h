// Combines small independent collectives of one kind into one, so that devices synchronise once.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::shard {

struct CombineLimits {
  int64_t each = 64 << 10;  // bytes of a collective that may be one of several
  int64_t total = 1 << 20;  // of all that become one
};

// Which collectives, by number (CollectivesOf), can become one: of one kind, type and group, one behind the
// other in the order of collectives, none computed from another. Sets of two or more.
std::vector<std::vector<size_t>> FindCombinable(const ir::Graph& graph, const CombineLimits& limits);

// Makes each set of `sets` one collective over what its members exchange, put side by side: computed there,
// and read there. Leaves a compact graph. False, and the graph is as it was, if control edges stand in the
// way.
bool CombineCollectives(ir::Graph* graph, const std::vector<std::vector<size_t>>& sets);

}  // namespace rondo::shard
