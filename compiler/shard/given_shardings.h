// GivenShardings: the model's own device configuration of its values, as shardings of nodes.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/device_hints.h"
#include "compiler/ir/graph.h"
#include "compiler/shard/candidates.h"
#include "compiler/shard/costs.h"
#include "core/status.h"

namespace rondo::shard {

// By node: the sharding that the model gives it, or kUnknown.
struct Given {
  std::vector<Sharding> shardings;
  std::vector<std::string> nodes;  // by node: who says so
  std::string configuration;       // its name in the model
  size_t said = 0, followed = 0;   // values that it gives, and those of them that are in `shardings`
  std::string not_followed;        // a line each, with the reason

  std::string Text() const;  // for people
};

// Of values and weights that the graph still has under their names. `devices`: those that the graph is shared
// out over, which may be one stage of the model's. States that programs before have settled in `states` stay
// so.
Given GivenShardings(const ir::Graph& graph, const DeviceHints& hints, int64_t devices,
                     const StateShardings& states);

// Leaves of every node the rules that take its weights as they are given. False if a node has none: its
// weights' hints are then no longer in `given`, and candidates are to be found anew.
bool FollowGiven(const ir::Graph& graph, const Costs& costs, Given* given, Candidates* candidates);

}  // namespace rondo::shard
