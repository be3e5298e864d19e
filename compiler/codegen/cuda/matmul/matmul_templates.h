// The templates of matmuls that no family of tiles computes (matmul_candidates.h): little work, or types and
// layouts that they do not take. Internal to compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_TEMPLATES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_TEMPLATES_H_

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

extern const PartTemplate kDotMatmul;    // a warp a point, A and B read as vectors along K
extern const PartTemplate kPlainMatmul;  // a thread or a warp a point

// The first that suits a part computes it.
inline constexpr const PartTemplate* kContractionTemplates[] = {&kDotMatmul, &kPlainMatmul};

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_MATMUL_MATMUL_TEMPLATES_H_
