// Unpack: the numbers of packed weights, worked out in every run. Internal to compiler/quantise.
#pragma once

#include <vector>

#include "compiler/ir/packed.h"
#include "compiler/passes/match.h"

namespace rondo::passes {

// The matrix as [n, k] of `dtype`: views of its bytes, shifts and masks, so that fusion has it as it has all
// other arithmetic.
ir::NodeId Unpack(ir::Builder& b, const ir::PackedMatrix& matrix, DType dtype);

// The numbers that a kIndexedRead of the matrix (as a tensor [n, k]) takes: those alone are unpacked. kNoNode
// where it moves other than along rows and columns of it.
ir::NodeId UnpackRead(ir::Builder& b, const ir::PackedMatrix& matrix, DType dtype,
                      const ir::IndexedAttrs& read, const std::vector<ir::NodeId>& indices);

}  // namespace rondo::passes
