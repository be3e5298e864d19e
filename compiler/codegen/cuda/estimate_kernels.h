// EstimateKernels: estimates the time of each kernel of a program, computed as it will be.
#pragma once

#include <functional>
#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/fusion/lowered.h"

namespace rondo {

// What is known about the memory bound to the op's parameters.
std::vector<cuda::ParamFacts> FactsOf(const LoweredProgram& program, const LoweredOp& op);

// EstimatedMicroseconds: the estimated time of a kernel, by its chosen candidate or by ElementCycles.
// EstimateKernels sets LoweredOp::microseconds of every kernel to it; `configuration` is the requested
// configuration (by a profile), and may be empty. 0 for f32 matmuls of cuBLASLt, whose estimate is only
// fitted for choosing, and far off.
double EstimatedMicroseconds(const Kernel& kernel, bool by_library, const CudaTarget& target,
                             Span<const cuda::ParamFacts> facts);
void EstimateKernels(LoweredProgram* program, const CudaTarget& target,
                     const std::function<KernelConfiguration(const Kernel&)>& configuration);

}  // namespace rondo
