// Weights of at most 8 bits behind a DequantizeLinear or a Cast, in the form that kernels read.
#pragma once

#include "compiler/import/op_context.h"

namespace rondo::importer {

// The result of a DequantizeLinear as a packed constant (compiler/ir/packed.h). kNoNode if its input is not
// such a weight or does not fit that form: a constant matrix with one scale in all, one per index of an axis,
// or one per block along an axis.
Result<NodeId> DequantisedWeight(OpContext& c);
// The same for a Cast of an FP8 or FP4 weight to `to`, with the scale 1.
Result<NodeId> CastWeight(OpContext& c, DType to);

}  // namespace rondo::importer
