// Masks empty positions of caches of a fixed length, in attention whose scores or weights are rounded.
//
// If a model quantises scores, or multiplies quantised numbers, passes do not recognise and limit its
// attention. Then the scores of a softmax get -inf at empty positions, and the operands that its weights
// multiply get 0 there (both by kSelects with `drops_uncached`). From there on it is proven, node by node,
// that such positions have one known number, which quantisation keeps (0 becomes the zero point, and 0 again)
// and which does not change sums and matmuls over all positions. A node without such a proof is refused.
#pragma once

#include <vector>

#include "compiler/ir/builder.h"
#include "core/status.h"

namespace rondo::importer {

// A maximum over positions, each of which is an element along dim `axis` of what it is of.
struct MaximumOfPositions {
  ir::NodeId node = ir::kNoNode;
  int axis = 0;
};

// The node for which it cannot be proven, and why; kNoNode: there is none.
struct NotProven {
  ir::NodeId node = ir::kNoNode;
  const char* why = "";
};

// Masks the scores of those `maxima` whose scores or weights are rounded, and what the weights multiply.
// `real`: how many positions hold something, i64 []. Maxima of other scores stay as they are.
NotProven DropUncached(ir::Builder* b, const std::vector<MaximumOfPositions>& maxima, ir::NodeId real);

}  // namespace rondo::importer
