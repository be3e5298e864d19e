// Bounds of the numbers in a tensor, as far as the graph shows them.
#pragma once

#include <limits>

#include "compiler/ir/graph.h"

namespace rondo::importer {

// Every element that is not NaN lies between the two.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
};
NumberRange RangeOf(const ir::Graph& graph, ir::NodeId id);

}  // namespace rondo::importer
