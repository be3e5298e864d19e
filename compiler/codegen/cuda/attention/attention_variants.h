// The templates of attention. Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

// f16 and bf16, many queries: they share keys and values in shared memory; by wgmma or mma
extern const KernelVariant kStagedAttention;
extern const KernelVariant
    kPipelinedAttention;  // the same by wgmma, and a warpgroup copies while two take turns
extern const KernelVariant
    kFlashAttention;  // f16 and bf16 by mma; warps and blocks of a cluster split the keys
extern const KernelVariant kFmaAttention;    // f32 by FMA; queries share keys and values in shared memory
extern const KernelVariant kPlainAttention;  // a block a query, in f32

// Where estimates are equal, the first is preferred.
inline constexpr const KernelVariant* kAttentionVariants[] = {
    &kStagedAttention, &kPipelinedAttention, &kFlashAttention, &kFmaAttention, &kPlainAttention};

}  // namespace rondo::cuda
