// Transfers: the values that the stages of a pipeline send each other, in the one order that all stages use.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/stage_cut.h"

namespace rondo::shard {

// A value that stage `to` reads and stage `from`, before it, makes; or that a node there has run, where
// control edges ask for it.
struct Transfer {
  ir::NodeId after = ir::kNoNode;  // the node of stage `from` behind which it is sent
  ir::NodeId value =
      ir::kNoNode;      // that node, or the only view of it that is read; kNoNode: nothing but order
  bool strong = false;  // of order alone: for the sake of a strong edge
  // A picture [n, c, spatial...], sent as [n, spatial..., c]: as it lies where convolutions and pools want it
  // so.
  bool channels_last = false;
  int from = 0, to = 0;
  std::string source;  // provenance for both ends, with who reads it
};

// Sorted by the place of `after` in the order of the graph, then by `to`: every stage takes what it needs
// before it computes anything, and sends what it makes as it makes it, so that no two can wait for one
// another. Control edges between nodes that touch one state are left out: what they order lies on different
// stages, apart. `host`: for the host, where all pictures of floats lie with their channels last; on GPUs,
// those of 16 bits do.
std::vector<Transfer> FindTransfers(const ir::Graph& graph, const StageCut& cut, bool host);

}  // namespace rondo::shard
