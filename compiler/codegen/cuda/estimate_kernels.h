// EstimateKernels: what each kernel of a program is estimated to take, computed as it will be.
#pragma once

#include <functional>
#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/fusion/lowered.h"

namespace rondo {

// What is known of the memory that the op's parameters are bound to.
std::vector<cuda::ParamFacts> FactsOf(const LoweredProgram& program, const LoweredOp& op);

// Sets LoweredOp::microseconds of every kernel: by the candidate that is chosen, or by ElementCycles.
// `configuration`: what is asked for a kernel (by a profile); may be empty. 0: what cuBLASLt takes for f32,
// whose estimate is fitted to choose, and far off.
double EstimatedMicroseconds(const Kernel& kernel, bool by_library, const CudaTarget& target,
                             Span<const cuda::ParamFacts> facts);
void EstimateKernels(LoweredProgram* program, const CudaTarget& target,
                     const std::function<KernelConfiguration(const Kernel&)>& configuration);

}  // namespace rondo
