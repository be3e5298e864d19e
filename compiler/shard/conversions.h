// Conversions: how a value that exists in some shardings gets another one. The search for shardings counts
// their costs, and the rewriting makes them; both use these functions, so that they agree.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/candidates.h"
#include "compiler/shard/costs.h"

namespace rondo::shard {

// A set of the shardings of a value: bit i is sharding i of Candidates::shardings.
using ShardingSet = uint16_t;

struct Conversion {
  Sharding from = kWhole, to = kWhole;
};
// From `there`, which is not empty, to `wanted`: none if it is there. What is on the way is there afterwards.
//   summand -> whole: an all-reduce; split -> whole: an all-gather; whole -> split, summand: nothing is sent.
std::vector<Conversion> PathTo(Sharding wanted, const std::vector<Sharding>& shardings, ShardingSet there);

// Weights, and views of them, are made in the sharding that is asked for: each device gets its share with the
// plan.
inline bool IsWeight(const ir::Graph& graph, ir::NodeId id) { return graph.IsConstant(graph.BaseOf(id)); }

// How a weight comes to be in a sharding; of infinite cost if it cannot, being given in another. How a view
// of one does: through a rule of the view, or by a share of it whole.
struct WeightChoice {
  int rule = 0;             // of the view's; unused for a constant itself
  Sharding base = kWhole;   // the sharding of the constant
  Sharding shown = kWhole;  // the sharding of the view, before a share or summand of it is taken
  double cost = 0;
};
WeightChoice ChooseWeight(const ir::Graph& graph, const Candidates& candidates, const Costs& costs,
                          ir::NodeId id, Sharding wanted, ShardingSet base_there);

}  // namespace rondo::shard
