// Bounds of the numbers in a tensor, as far as they follow from the graph.
#pragma once

#include <limits>

#include "compiler/ir/graph.h"

namespace rondo::importer {

// Every element that is not NaN lies from `least` to `most`.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
};
NumberRange RangeOf(const ir::Graph& graph, ir::NodeId id);

}  // namespace rondo::importer
