// Facts about the signs of a graph's floats.
#pragma once

#include "compiler/ir/graph.h"

namespace rondo::passes {

// Whether every element of `id` is +0, positive or NaN, for all inputs: never -0, never negative.
bool IsNeverNegative(const ir::Graph& graph, ir::NodeId id);

// The same, but -0 is allowed.
bool IsNeverBelowZero(const ir::Graph& graph, ir::NodeId id);

// Whether no element of `id` can be -0.
bool IsNeverMinusZero(const ir::Graph& graph, ir::NodeId id);

}  // namespace rondo::passes
