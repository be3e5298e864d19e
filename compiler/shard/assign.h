// Assign: which sharding every value of a graph takes on the devices.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/candidates.h"
#include "compiler/shard/costs.h"

namespace rondo::shard {

// What happens at one place of the order: a node is computed by a rule, or a state is taken in a sharding.
// Nodes that are weights are no steps (conversions.h).
struct Step {
  ir::NodeId node = ir::kNoNode;
  // kInput: the number of its sharding; kView: 0, or 1 + the rule that makes a conversion; else the rule.
  int choice = 0;
};

struct Assignment {
  std::vector<Step> steps;  // every node that is needed, after what it reads and what it must come after
  double cost = 0;
};

// The cheapest of what a search with a bounded number of states finds: the graph in order, and of the ways
// to have computed it so far, the best few that differ in what is still needed. Inputs and outputs are whole,
// those of a state of one sharding. Deterministic; thread-safe.
Assignment Assign(const ir::Graph& graph, const Candidates& candidates, const Costs& costs,
                  const StateShardings& state_shardings);

// The pair of which `input` (`output`) is a part; -1 if it is of none.
int PairOfInput(const ir::Graph& graph, size_t input);
int PairOfOutput(const ir::Graph& graph, size_t output);

}  // namespace rondo::shard
