// Bounds of the numbers in a tensor, as far as they follow from the graph.
#pragma once

#include <limits>

#include "compiler/ir/graph.h"

namespace rondo::ir {

struct NumberRange {
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
};
// Every element of `id` that is not NaN lies from `least` to `most`.
NumberRange RangeOf(const Graph& graph, NodeId id);

}  // namespace rondo::ir
