// PadHeads: adds heads to attention if the number of devices does not divide its key heads, so that it does.
//
// Twelve heads on eight devices become sixteen, two a device. If each key head has several query heads, the
// new ones get as many. Everything that is computed for each head becomes longer, from the matmuls that
// compute queries, keys and values to the one that sums over the results of attention. Weights are padded
// with zeros (synthetic ones with what follows them), and values of the new heads read as zero where they are
// summed, so that they have no effect. States (caches) become longer too, if that is allowed: their shape
// then differs from the model's. If heads are read in any other way, nothing changes, and every device
// computes all heads.
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
