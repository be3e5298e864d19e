// Masks positions that hold nothing, in attention whose scores or weights are rounded, over caches of a fixed
// length.
//
// Scores that a model quantises, or products of quantised numbers, are no attention that passes recognise and
// limit. A softmax over such scores gets -inf where nothing is cached, and what its weights are multiplied by
// gets 0 there (both are kSelects with `drops_uncached`). From these on it is proven, node by node, that such
// positions have one known number, which quantisation keeps (0 is the zero point, and 0 again) and which sums
// and products over all positions do not notice. A node for which that cannot be proven is refused.
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
