// The templates of top k. Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

extern const KernelVariant kLanesTopK;  // a warp sorts a short row
extern const KernelVariant kRowTopK;    // a block or a cluster searches a row for its first elements

inline constexpr const KernelVariant* kTopKVariants[] = {&kLanesTopK, &kRowTopK};

}  // namespace rondo::cuda
