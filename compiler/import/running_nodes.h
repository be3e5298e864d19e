// Which nodes of a graph run something, and what is said of their order: shared by what makes control edges.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace rondo::importer {

// Views show, constants are there, results and index numbers belong to who makes or reads them: those run
// nothing.
bool Runs(const ir::Node& node);
// What runs when `id` is made; kNoNode if that is nothing.
ir::NodeId MakerOf(const ir::Graph& graph, ir::NodeId id);
// `Op "node"`, where it comes from; else what it is.
std::string TextOf(const ir::Node& node);
// `late` is to run after `early`, which comes after it: "Add "a" is to run after Mul "b"; Mul "b" reads what
// Neg "c" makes; Neg "c" is to run after Add "a"".
std::string CycleText(const ir::Graph& graph, ir::NodeId late, ir::NodeId early);

}  // namespace rondo::importer
