// Masks padding, so that a graph with padded dims computes what a graph of the run's own sizes computes.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/sizes.h"
#include "core/status.h"

namespace rondo::importer {

// The sizes in a run of the dims of the graph's outputs, in order.
struct OutputSizes {
  std::vector<ir::Dims> of;
};

// What people can do about a dimension that cannot be padded, by the option that names its size
// (ir::Sizes::cause).
const char* RemedyFor(const std::string& cause);

// `graph` was imported with `sizes` followed, whose names have nodes. Its inputs must be 0 in their padding.
// Afterwards a node's results within the run's sizes depend on no padding: where padding would change them
// (sums, maxima, matmuls over a padded dimension, attention), it is replaced by values that change nothing.
// Padding of results holds anything. kUnsupported, with the node, where that cannot be done.
Result<OutputSizes> MaskPadding(ir::Graph* graph, ir::Sizes* sizes);

}  // namespace rondo::importer
