// KernelCandidates: the one list of ways in which the matmul of a kernel can be computed, generated or by a
// library, with what each would cost. Plain compilation, `--products`, `--alternatives` and `--profile`
// choose from it.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_KERNEL_CANDIDATES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_KERNEL_CANDIDATES_H_

#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/codegen/cuda/matmul/matmul_candidates.h"
#include "compiler/codegen/cuda/matmul/split_epilogue.h"
#include "core/kernel.h"

namespace rondo {

// Of the matmul with most work in the kernel: what is generated; then, if cuBLASLt computes the kernel as it
// is, or, given `split`, as a matmul and a map over its sums, the algorithms of the library, its first with
// an estimate. Empty: the kernel has no matmul, or one that a plain template computes. `params`: one a
// parameter of the kernel. No text is written.
std::vector<MatmulCandidate> KernelCandidates(const Kernel& kernel, const CudaTarget& target,
                                              Span<const cuda::ParamFacts> params,
                                              const SplitOp* split = nullptr);

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_KERNEL_CANDIDATES_H_
