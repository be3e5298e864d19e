// PadHeads: attention of which the devices do not divide the heads of keys gets more heads, so that they do.
//
// Twelve heads on eight devices become sixteen, two a device; where each head of keys has several of queries,
// with as many more of those. All that is computed head by head between the matmuls that make queries, keys
// and values and the one that sums over what attention gives gets longer: weights get zeros (synthetic ones
// whatever follows), and what is computed beyond the old heads reads as zero where it is summed, so it is
// never seen. States (caches) get longer, too, where that is allowed: their shape is then no more what the
// model says. What is read in any other way stays: then every device computes all heads.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/costs.h"
#include "compiler/shard/pad_uneven.h"

namespace rondo::shard {

// Changes `graph`, whose results stay what they are but for the order of sums. Only where the weights that a
// device then does not hold are worth the messages (Costs::PaysAMessage) and each device does three quarters
// of the work at most; where queries divide without it, only if a device then holds less. Those named in
// `leave` stay. `states`: heads in states, too. Of equal graphs the same.
std::vector<PaddedDim> PadHeads(const Costs& costs, const std::set<std::string>& leave, bool states,
                                ir::Graph* graph);

}  // namespace rondo::shard
