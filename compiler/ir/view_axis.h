// Finds an axis of a tensor in a view of it.
#pragma once

#include "compiler/ir/view.h"

namespace rondo::ir {

// The dim of `view`, over a tensor of shape `base`, whose positions are exactly those along `axis` of the
// base; -1 if there is none.
int AxisThrough(const View& view, const Shape& base, int axis);

}  // namespace rondo::ir
