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

// Advice to the user about a dimension that cannot be padded. `cause` is the option that names its size
// (ir::Sizes::cause).
const char* RemedyFor(const std::string& cause);

// `graph` must have been imported with `sizes` followed, and the names in `sizes` must have nodes. Inputs
// must have 0 in their padding. Afterwards no result within the run's sizes depends on padding: operands of
// nodes whose result would depend on it (sums, maxima, matmuls and attention over a padded dim) get neutral
// values there. The padding of results may hold anything. kUnsupported, with the node, if masking is
// impossible.
Result<OutputSizes> MaskPadding(ir::Graph* graph, ir::Sizes* sizes);

}  // namespace rondo::importer
