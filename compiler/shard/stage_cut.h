// CutStages: which stage of a pipeline computes each node of a graph.
//
// A stage is a run of the graph's compute nodes in their order. A search places the cuts. It minimises the
// greatest load of a stage (bytes of weights and state that it holds, work that it does, in the units of
// costs.h) and what is sent. All nodes that touch a row of a state are on one stage, which holds the row.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/shard/stage_load.h"
#include "compiler/shard/state_rows.h"
#include "core/status.h"

namespace rondo::shard {

inline constexpr int kNoStage = -1;

// What the programs of a plan share: which stage holds what. Programs after the first follow it, states
// strictly, weights where that costs less than holding them twice.
struct StagePlaces {
  std::map<std::string, std::vector<int>> rows;  // by StateKey: the stage of each row
  std::map<std::string, std::set<int>> weights;  // by name, dtype and shape
  bool by_demand = false;  // nodes are cut in the order of OrderByDemand, not in the graph's
};

struct StageCut {
  int stages = 1;
  // By node. kNoStage: a view, input or constant, or what each stage that reads it computes for itself,
  // because it comes from inputs and small constants alone (positions, masks).
  std::vector<int> stage_of;
  std::vector<ir::NodeId> order;  // the nodes that have a stage, as they are cut; stages ascend
  std::vector<StateRows> states;
  std::vector<std::vector<int>> row_stages;  // by state and row; rows of one stage are neighbours
};

// `places` is followed and added to. kInvalidArgument, with the numbers, if the graph has fewer places to cut
// than are asked for: states that are used all along leave none. Deterministic.
Result<StageCut> CutStages(const ir::Graph& graph, int stages, StagePlaces* places);

// The same by what the model itself says of its nodes (by their first sources); those that it says nothing of
// are on the first stage that they can be on. kInvalidArgument, by node, for stages that contradict the
// graph: a node before what it reads, a state on two of them, one that has no node. The stages must be as
// many as the model has.
Result<StageCut> CutAsGiven(const ir::Graph& graph, const std::map<std::string, int>& stage_of, int stages,
                            StagePlaces* places);

// The same at places that are chosen: before positions `cuts` of the order, ascending; one stage more than
// cuts. None of them parts what must stay together (StageLoads::Parts).
StageCut CutAt(const ir::Graph& graph, const StageOrder& order, const std::vector<size_t>& cuts);

// The rows of a state that a stage holds.
RowRange RowsOn(const StageCut& cut, size_t state, int stage);

}  // namespace rondo::shard
