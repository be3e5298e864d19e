// Philox4x32-10 as nodes: random numbers as a function of a counter and a key (Salmon, Moraes, Dror and Shaw,
// "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
#pragma once

#include <array>

#include "compiler/ir/builder.h"

namespace rondo::ir {

// Every word is an i64 node with values from 0 to 2^32 - 1; their shapes broadcast, and the result's words
// have the broadcast shape.
std::array<NodeId, 4> Philox(Builder& b, std::array<NodeId, 4> counter, std::array<NodeId, 2> key);

}  // namespace rondo::ir
