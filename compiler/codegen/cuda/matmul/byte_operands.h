// Helpers for matmul variants on bytes: 8-bit integers and FP8. Internal to compiler/codegen/cuda.
#pragma once

#include <string>

#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

// Whether A, which must not have a prologue, and all B are bytes that the target multiplies: 8-bit integers
// whose sums fit in 32 bits, or FP8.
bool MultipliesBytes(const PartContext& context, const MatmulProblem& problem);
// The device type of the multiplication (device/byte_matmul.cuh).
std::string BytesText(DType a, DType b);

}  // namespace rondo::cuda
