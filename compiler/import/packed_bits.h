// Numbers of 2 or 4 bits, several in a byte with the first in its lowest bits, as u8 tensors.
#pragma once

#include "compiler/ir/builder.h"

namespace rondo::importer {

// x [..., n] of u8 as u8 [..., n * 8 / bits]; bits is 2, 4 or 8.
ir::NodeId UnpackBits(ir::Builder& b, ir::NodeId x, int64_t bits);

// x [..., n] of whole numbers in [0, 2^bits) of any type as u8 [..., n * bits / 8], which must be whole.
ir::NodeId PackBits(ir::Builder& b, ir::NodeId x, int64_t bits);

}  // namespace rondo::importer
