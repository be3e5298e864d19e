// PadHeads: attention of which the devices do not divide the heads of keys gets more heads, so that they do.
//
// Twelve heads on eight devices become sixteen, two a device; where each head of keys has several of queries,
// with as many more of those. All that is computed head by head between the matmuls that make queries, keys
// and values and the one that sums over what attention gives gets longer: weights get zeros (synthetic ones
// whatever follows), and what is computed beyond the old heads reads as zero where it is summed, so it is
// never seen. Heads in a state (a cache) stay, since the state would change its shape, and so does what is
// read in any other way: then every device computes all heads.
#ifndef RONDO_COMPILER_SHARD_PAD_HEADS_H_
#define RONDO_COMPILER_SHARD_PAD_HEADS_H_

#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/costs.h"
#include "compiler/shard/pad_uneven.h"

namespace rondo::shard {

// Changes `graph`, whose results stay what they are but for the order of sums. Only where the weights that a
// device then does not hold are worth the messages (Costs::PaysAMessage) and each device does three quarters
// of the work at most; those named in `leave` stay. Of equal graphs the same.
std::vector<PaddedDim> PadHeads(const Costs& costs, const std::set<std::string>& leave, ir::Graph* graph);

}  // namespace rondo::shard

#endif  // RONDO_COMPILER_SHARD_PAD_HEADS_H_
