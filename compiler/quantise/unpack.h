// Unpack: unpacks packed weights at run time. Internal to compiler/quantise.
#pragma once

#include <vector>

#include "compiler/ir/packed.h"
#include "compiler/passes/match.h"

namespace rondo::passes {

// The matrix as [n, k] of `dtype`: views of its bytes, shifts and masks, so that fusion treats it like all
// other arithmetic.
ir::NodeId Unpack(ir::Builder& b, const ir::PackedMatrix& matrix, DType dtype);

// The numbers that a kIndexedRead of the matrix (as a tensor [n, k]) reads: only those are unpacked. kNoNode
// if it moves other than along rows and columns.
ir::NodeId UnpackRead(ir::Builder& b, const ir::PackedMatrix& matrix, DType dtype,
                      const ir::IndexedAttrs& read, const std::vector<ir::NodeId>& indices);

}  // namespace rondo::passes
