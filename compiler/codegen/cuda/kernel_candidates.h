// KernelCandidates: the list of all ways to compute the matmul of a kernel, generated or by a library, each
// with its estimated cost. Plain compilation, `--matmuls`, `--alternatives` and `--profile` choose from it.
#pragma once

#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/codegen/cuda/kernel_configuration.h"
#include "compiler/codegen/cuda/matmul/split_epilogue.h"
#include "core/kernel.h"

namespace rondo {

// All candidates for this kernel on this GPU, with their costs. For the part with the most work among those
// with a choice: first the generated candidates; then the library's algorithms, the first of them with an
// estimate, if cuBLASLt can compute the kernel as it is or, given `split`, as a matmul and a map over its
// sums. Empty: only maps and reductions, whose templates leave nothing to choose. `params`: one for each
// parameter of the kernel. No text is generated.
std::vector<KernelCandidate> KernelCandidates(const Kernel& kernel, const CudaTarget& target,
                                              Span<const cuda::ParamFacts> params,
                                              const SplitOp* split = nullptr);

// All tiles of a matmul variant, independent of a problem, for tests and measurements: tiles copied by
// threads with the cluster left open, tiles of TMA with each cluster. Empty: the variant has no tiles, or the
// target lacks it.
std::vector<KernelConfiguration> TilesOf(VariantId variant, const CudaTarget& target);

}  // namespace rondo
