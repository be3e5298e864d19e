// ShardGraph: divides a whole model among several devices.
//
//   StateShardings states;                       // one for all programs of a plan
//   ShardedGraph sharded;
//   RONDO_RETURN_IF_ERROR(ShardGraph(std::move(graph), 2, &states, &sharded));
//
// The graph has no collectives; its states are paired, its patterns recognised. Weights and states are
// divided, work follows them (assign.h), and collectives gather what is needed whole. What cannot be divided
// into equal parts is held and computed by every device, equal to the bit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/device_hints.h"
#include "compiler/ir/graph.h"
#include "compiler/shard/candidates.h"
#include "compiler/shard/pad_uneven.h"
#include "compiler/shard/rank_graph.h"
#include "core/status.h"

namespace rondo::shard {

struct ShardedGraph {
  std::vector<ir::Graph> ranks;            // one a device, compact
  std::map<std::string, Sharding> states;  // by input
  // Those that have more heads than the model says, an equal number on each device.
  std::vector<PaddedState> padded;
  // For people: collectives, bytes of weights and states a device, and what is not shared out with the
  // reason.
  std::string text;
};

// `states`: the shardings that programs before this one have given the states they share; this one's are
// added. `stage`: of a pipeline, of which the graph is one stage (stages.h). `hints`, may be null: what the
// model itself says; taken as given. `weights`, may be null: the shardings in which programs before this one
// hold their weights, which cost nothing here; this one's are added. `pad_states`: states may get more heads,
// so that they can be dealt out. kInvalidArgument, by node, for a hint that nothing can be computed by.
Status ShardGraph(ir::Graph graph, int64_t devices, StateShardings* states, ShardedGraph* out,
                  StageNumber stage = {}, const DeviceHints* hints = nullptr,
                  WeightShardings* weights = nullptr, bool pad_states = false);

// kUnsupported, naming it, for a graph that already has collectives: neither this nor CutIntoStages takes it.
Status RefuseCollectives(const ir::Graph& graph);

}  // namespace rondo::shard
