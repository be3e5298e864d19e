// What the variants of matmuls of bytes by bytes share: 8-bit integers, and FP8. Internal to
// compiler/codegen/cuda.
#pragma once

#include <string>

#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

// Whether A, which no prologue makes, and all B are such bytes as the target multiplies: 8-bit integers,
// whose sums 32 bits hold, or FP8.
bool MultipliesBytes(const PartContext& context, const MatmulProblem& problem);
// The device's type of what is multiplied (device/byte_matmul.cuh).
std::string BytesText(DType a, DType b);

}  // namespace rondo::cuda
