// Which nodes of a graph execute, and error messages about their order; for the makers of control edges.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::importer {

// False for views, constants, further results of a node and iotas: those launch no kernel of their own.
bool IsExecutable(const ir::Node& node);
// The node that executes to make `id`; kNoNode if none does.
ir::NodeId MakerOf(const ir::Graph& graph, ir::NodeId id);
// `Op "node"`, the ONNX node that it comes from, if any; otherwise its kind.
std::string TextOf(const ir::Node& node);
// Describes a cycle: `late` is to run after `early`, which already depends on it: "Add "a" is to run after
// Mul "b"; Mul "b" reads what Neg "c" makes; Neg "c" is to run after Add "a"".
std::string CycleText(const ir::Graph& graph, ir::NodeId late, ir::NodeId early);

}  // namespace rondo::importer
