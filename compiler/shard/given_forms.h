// GivenForms: what the model itself says of how its values are dealt out, as forms of nodes.
#ifndef RONDO_COMPILER_SHARD_GIVEN_FORMS_H_
#define RONDO_COMPILER_SHARD_GIVEN_FORMS_H_

#include <string>
#include <vector>

#include "compiler/ir/device_hints.h"
#include "compiler/ir/graph.h"
#include "compiler/shard/candidates.h"
#include "compiler/shard/costs.h"
#include "core/status.h"

namespace rondo::shard {

// By node: the form that the model gives it, or kFree.
struct Given {
  std::vector<Form> forms;
  std::vector<std::string> nodes;  // by node: who says so
  std::string text;                // for people: what is followed, what is not, with the reason
};

// Of values and weights that the graph still has under their names. `devices`: those that the graph is shared
// out over, which may be one stage of the model's. States that programs before have settled in `states` stay
// so.
Given GivenForms(const ir::Graph& graph, const DeviceHints& hints, int64_t devices, const StateForms& states);

// Leaves of every node the rules that take its weights as they are given. kInvalidArgument, naming it and who
// gives its weight, for a node that has none.
Status FollowGiven(const ir::Graph& graph, const Costs& costs, const Given& given, Candidates* candidates);

}  // namespace rondo::shard

#endif  // RONDO_COMPILER_SHARD_GIVEN_FORMS_H_
