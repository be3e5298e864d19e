// What became of each ONNX node: a step names it among its sources, or the plan says why none does.
#pragma once

#include <string>
#include <vector>

#include "compiler/compilation.h"

namespace rondo {

// Notes what runs, is a constant or a view, and what is left of neither. Called after import, and before the
// graph becomes kernels: what was noted last of a node holds.
void FollowNodes(ProgramInWork* program);

// Of the model's nodes that no step of any program names: `view Op "node"` and its like
// (formats/plan/node_fate.h).
std::vector<std::string> FatesOf(const Compilation& compilation);

}  // namespace rondo
