// What a graph says of the signs of its floats.
#pragma once

#include "compiler/ir/graph.h"

namespace rondo::passes {

// Whether every element of `id` is +0, above it, or NaN, whatever the inputs are: never -0, never below it.
bool IsNeverNegative(const ir::Graph& graph, ir::NodeId id);

// Whether no element of `id` can be -0.
bool IsNeverMinusZero(const ir::Graph& graph, ir::NodeId id);

}  // namespace rondo::passes
