// KernelCandidates: the one list of ways in which the matmul of a kernel can be computed, generated or by a
// library, with what each would cost. Plain compilation, `--matmuls`, `--alternatives` and `--profile`
// choose from it.
#pragma once

#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/codegen/cuda/kernel_configuration.h"
#include "compiler/codegen/cuda/matmul/split_epilogue.h"
#include "core/kernel.h"

namespace rondo {

// Given this kernel and this GPU, which candidates are there, and what would each cost? Of the part with most
// work among those that have a choice: what is generated; then, if cuBLASLt computes the kernel as it is, or,
// given `split`, as a matmul and a map over its sums, the algorithms of the library, its first with an
// estimate. Empty: maps and reductions alone, whose templates leave nothing to choose. `params`: one a
// parameter of the kernel. No text is written.
std::vector<KernelCandidate> KernelCandidates(const Kernel& kernel, const CudaTarget& target,
                                              Span<const cuda::ParamFacts> params,
                                              const SplitOp* split = nullptr);

// Every tile that a variant of matmuls has, whatever the problem, for tests and measurements: of tiles copied
// by threads with the cluster left open, of TMA with each. Empty: the variant is not made of tiles, or the
// target has it not.
std::vector<KernelConfiguration> TilesOf(VariantId variant, const CudaTarget& target);

}  // namespace rondo
