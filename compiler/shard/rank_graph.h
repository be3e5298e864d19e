// RankGraph: makes the graph of one device from a graph whose values have shardings.
#pragma once

#include "compiler/ir/graph.h"
#include "compiler/shard/assign.h"
#include "compiler/shard/candidates.h"
#include "compiler/shard/costs.h"
#include "core/status.h"

namespace rondo::shard {

// Of a pipeline, the stage that a graph is: its device r is device number * devices + r of the plan, and
// sends go to the device of the same r of other stages.
struct StageNumber {
  uint32_t number = 0, count = 1;
};

// Device `rank`'s graph: its share of weights, states and work, and the collectives, each with a source that
// says what it is for. Ports keep their names and order; the shapes of states are those of their share. The
// graphs of all ranks have the same nodes, and differ in constants and offsets. kInternal if a state's
// readers can no longer run before what replaces it. `held`, may be null, is told the shardings of its
// weights.
Result<ir::Graph> RankGraph(const ir::Graph& graph, const Candidates& candidates, const Costs& costs,
                            const Assignment& assignment, int64_t rank, StageNumber stage = {},
                            WeightShardings* held = nullptr);

}  // namespace rondo::shard
