// Records what became of each ONNX node: a step has it among its sources, or the plan says why not.
#pragma once

#include <string>
#include <vector>

#include "compiler/compilation.h"

namespace rondo {

// Records nodes that run, are constants or views, or are gone. Called after import, and before the graph
// becomes kernels; the latest record of a node counts.
void FollowNodes(ProgramInWork* program);

// Notes for the model's nodes that no step of any program names: `view Op "node"` and the like
// (formats/plan/node_fate.h).
std::vector<std::string> FatesOf(const Compilation& compilation);

}  // namespace rondo
