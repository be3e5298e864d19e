// Pictures that a run quantises, padded with a zero point that it finds.
#pragma once

#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::passes {

// `numbers` with `zero` (one number) around them, elements before and after along each axis: made of the
// picture that they were quantised from with 0 around it, which any scale makes the zero point, so that who
// quantises pads as well. kNoNode if they are not seen to be quantised so.
ir::NodeId QuantisedPadded(ir::Builder& b, ir::NodeId numbers, ir::NodeId zero,
                           const std::vector<int64_t>& before, const std::vector<int64_t>& after);

}  // namespace rondo::passes
