// StageGraphs: makes the graph of each stage of a pipeline.
#pragma once

#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/stage_cut.h"
#include "compiler/shard/transfers.h"
#include "core/status.h"

namespace rondo::shard {

// One graph a stage, compact: its nodes, the weights that they read, the inputs that they read (those that
// nothing reads: on the first stage) and the outputs that they make, under their names; sends of `transfers`,
// in order, between groups that name stages. A state is on each stage with the rows that are used there;
// which is the whole of it wherever it is used on one stage alone. kInternal if a state's readers can no
// longer run before what replaces it.
Result<std::vector<ir::Graph>> StageGraphs(const ir::Graph& graph, const StageCut& cut,
                                           const std::vector<Transfer>& transfers);

}  // namespace rondo::shard
