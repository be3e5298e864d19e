// Where an axis of a tensor is in a view of it.
#pragma once

#include "compiler/ir/view.h"

namespace rondo::ir {

// The dim of `view`, of something of shape `base`, whose places are those along `axis` of the base, each at
// its own; -1 if there is none.
int AxisThrough(const View& view, const Shape& base, int axis);

}  // namespace rondo::ir
