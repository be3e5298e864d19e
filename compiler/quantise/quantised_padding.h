// Pads images that are quantised at run time, with a zero point computed at run time.
#pragma once

#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::passes {

// `numbers` padded with `zero` (a single number), by `before` and `after` elements along each axis. Pads the
// original image with 0 instead, which any scale quantises to the zero point, so that the quantising kernel
// also pads. kNoNode if `numbers` is not recognised as quantised.
ir::NodeId QuantisedPadded(ir::Builder& b, ir::NodeId numbers, ir::NodeId zero,
                           const std::vector<int64_t>& before, const std::vector<int64_t>& after);

}  // namespace rondo::passes
