// What the variants of matmuls by weights in fewer bits (Part::packed) share: which problems suit, and what B
// is to them. Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/device/packed_format.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

// Whether B is packed, and in blocks that pieces of codes divide or are divided by; false for other parts.
bool SuitsPacked(const Part& part, const MatmulProblem& problem);

// Of a part that suits.
PackedFormat FormatOf(const Part& part);
// Whether codes, scales and zero points never change.
bool IsPackedBConstant(const PartContext& context);

}  // namespace rondo::cuda
