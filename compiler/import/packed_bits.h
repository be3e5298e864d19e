// Numbers of 2 or 4 bits as u8 tensors, several per byte, the first in the lowest bits.
#pragma once

#include "compiler/ir/builder.h"

namespace rondo::importer {

// x [..., n] of u8 as u8 [..., n * 8 / bits]; bits is 2, 4 or 8.
ir::NodeId UnpackBits(ir::Builder& b, ir::NodeId x, int64_t bits);

// x [..., n] of integers in [0, 2^bits), of any type, as u8 [..., n * bits / 8]; n * bits must be a multiple
// of 8.
ir::NodeId PackBits(ir::Builder& b, ir::NodeId x, int64_t bits);

}  // namespace rondo::importer
