// Masks the empty positions of caches of a fixed length, in attention with rounded scores or weights.
//
// If a model quantises scores, or multiplies quantised values, the passes do not recognise its attention and
// do not limit it. Instead, the scores of a softmax get -inf at empty positions, and the operands that its
// weights multiply get 0 there (by kSelects with `drops_uncached`). From there on, a proof follows the graph
// node by node: empty positions hold one known number, which quantisation keeps (0 becomes the zero point,
// and 0 again) and which does not change sums and matmuls over all positions. A node for which this cannot be
// proven is refused.
#pragma once

#include <vector>

#include "compiler/ir/builder.h"
#include "core/status.h"

namespace rondo::importer {

// A maximum over positions, which lie along dim `axis` of its operand.
struct MaximumOfPositions {
  ir::NodeId node = ir::kNoNode;
  int axis = 0;
};

// The node for which the proof fails, and the reason; kNoNode if it succeeds.
struct NotProven {
  ir::NodeId node = ir::kNoNode;
  const char* why = "";
};

// Masks the scores of those `maxima` whose scores or weights are rounded, and the operands that the weights
// multiply. `real`: the number of filled positions, i64 []. Other maxima do not change.
NotProven DropUncached(ir::Builder* b, const std::vector<MaximumOfPositions>& maxima, ir::NodeId real);

}  // namespace rondo::importer
