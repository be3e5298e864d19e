// u64. Every target keeps it in the bits of an i64 (core/kernel.h). Where a result depends on what the
// highest bit means, Builder makes the operation of others that give the right bits, so that evaluation,
// passes and targets need not distinguish the two types. (Narrower unsigned integers are widened without
// change.)
#pragma once

#include <vector>

#include "compiler/ir/builder.h"

namespace rondo::ir {

// Integers (i64) in the order of `x` (u64), and back: the highest bit is inverted.
NodeId ToSignedOrder(Builder& b, NodeId x);
NodeId FromSignedOrder(Builder& b, NodeId x);

// A pointwise operation whose first input is u64; kNoNode if it gives the same bits for i64. `to` is the type
// of the result.
NodeId UnsignedPointwise(Builder& b, TapeOp op, DType to, const std::vector<NodeId>& xs);

}  // namespace rondo::ir
