// Helpers for matmul variants with packed weights (Part::packed): suitable problems, and the format of B.
// Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/device/packed_format.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

// Whether B is packed, in blocks that divide pieces of codes or that pieces divide; false for other parts.
bool SuitsPacked(const Part& part, const MatmulProblem& problem);

// For a part that suits.
PackedFormat FormatOf(const Part& part);
// Whether codes, scales and zero points are constant.
bool IsPackedBConstant(const PartContext& context);

}  // namespace rondo::cuda
