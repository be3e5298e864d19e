// Random numbers for a node.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

// Numbers in (0, 1), f32, from the node's seed and name: the same in every run and on every driver.
NodeId RandomOfNode(OpContext& c, const Shape& shape);

}  // namespace rondo::importer
