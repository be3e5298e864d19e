// Philox4x32-10: random numbers that are a function of a counter and a key (Salmon, Moraes, Dror and Shaw,
// "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011), as nodes.
#pragma once

#include <array>

#include "compiler/ir/builder.h"

namespace rondo::ir {

// Every word is an i64 node of values from 0 to 2^32 - 1; their shapes broadcast. The words of the result
// have the shape of them all.
std::array<NodeId, 4> Philox(Builder& b, std::array<NodeId, 4> counter, std::array<NodeId, 2> key);

}  // namespace rondo::ir
