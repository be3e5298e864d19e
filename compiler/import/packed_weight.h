// Weights of less than 8 bits behind a DequantizeLinear, in the form that kernels read.
#ifndef RONDO_COMPILER_IMPORT_PACKED_WEIGHT_H_
#define RONDO_COMPILER_IMPORT_PACKED_WEIGHT_H_

#include "compiler/import/op_context.h"

namespace rondo::importer {

// What a DequantizeLinear of a weight gives, as a packed constant (compiler/ir/packed.h). kNoNode where it is
// no such weight, or does not fit that form: a matrix of constants, with scales for blocks along one axis,
// for each index of one axis, or one for all.
Result<NodeId> DequantisedWeight(OpContext& c);

}  // namespace rondo::importer

#endif  // RONDO_COMPILER_IMPORT_PACKED_WEIGHT_H_
