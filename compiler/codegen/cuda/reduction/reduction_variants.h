// The templates of row reductions. Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

extern const KernelVariant kRunningSums;  // rows that are sums of the first elements of one row (prefix sums)
extern const KernelVariant kTeamReduction;    // long rows, split over the blocks of a cluster
extern const KernelVariant kRowReduction;     // rows read once, as vectors, and kept in registers
extern const KernelVariant kColumnReduction;  // adjacent rows, whose elements threads and blocks share
extern const KernelVariant kPlainReduction;   // everything else, by elements

// The first that suits a part is used: none has an estimate.
inline constexpr const KernelVariant* kReductionVariants[] = {&kRunningSums, &kTeamReduction, &kRowReduction,
                                                              &kColumnReduction, &kPlainReduction};

}  // namespace rondo::cuda
