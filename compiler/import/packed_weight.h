// Weights of less than 8 bits with a DequantizeLinear, in the form that kernels read.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

// What a DequantizeLinear of a weight gives, as a packed constant (compiler/ir/packed.h). kNoNode where it is
// no such weight, or does not fit that form: a matrix of constants, with scales for blocks along one axis,
// for each index of one axis, or one for all.
Result<NodeId> DequantisedWeight(OpContext& c);
// The same of a Cast of a weight of FP8 or FP4 to `to`: its numbers, each times 1.
Result<NodeId> CastWeight(OpContext& c, DType to);

}  // namespace rondo::importer
