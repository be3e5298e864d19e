// CutIntoStages: cuts a whole model into a pipeline of stages, each for its own device (or, sharded, group of
// devices).
//
//   StagePlaces places;                      // one for all programs of a plan
//   StagedGraph staged;
//   RONDO_RETURN_IF_ERROR(CutIntoStages(graph, 2, true, &places, &staged));
//
// The graph has no collectives; its states are paired, its patterns recognised. Only the place of nodes
// changes: results are equal to the bit to those of the whole graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/device_hints.h"
#include "compiler/ir/graph.h"
#include "compiler/shard/stage_cut.h"
#include "core/status.h"

namespace rondo::shard {

struct StagedGraph {
  std::vector<ir::Graph> stages;  // compact; their sends name stages where devices will be
  // By stage and input: what it holds of a state that is held row by row.
  std::vector<std::map<std::string, ir::View>> rows;
  // For people: what each stage holds and sends, and the weights that several hold.
  std::string text;
};

// `places`: what programs before this one have settled; this one's are added. Errors: CutStages, StageGraphs.
// `host`: for the host (transfers.h).
// `hints`, may be null: what the model itself says; its stages are taken as given if they are as many.
Status CutIntoStages(const ir::Graph& graph, int stages, bool host, StagePlaces* places, StagedGraph* out,
                     const DeviceHints* hints = nullptr);

}  // namespace rondo::shard
