// The templates of attention. Internal to compiler/codegen/cuda.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_ATTENTION_ATTENTION_TEMPLATES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_ATTENTION_ATTENTION_TEMPLATES_H_

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

extern const PartTemplate
    kFlashAttention;  // f16 and bf16 by mma; warps and blocks of a cluster split the keys
extern const PartTemplate kPlainAttention;  // a block a query, in f32

// The first that suits a part computes it.
inline constexpr const PartTemplate* kAttentionTemplates[] = {&kFlashAttention, &kPlainAttention};

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_ATTENTION_ATTENTION_TEMPLATES_H_
