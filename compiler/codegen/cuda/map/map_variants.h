// The templates of maps. Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

extern const KernelVariant kLastWriterMap;  // writes may coincide: of each place, the last point writes
extern const KernelVariant kOrderFreeMap;   // writes may coincide: maxima, minima, sums of integers
extern const KernelVariant kOwnedMap;       // writes may coincide: a warp takes all points of its places
extern const KernelVariant kOrderedMap;     // writes may coincide: a thread takes all points that can meet
extern const KernelVariant kTransposedMap;  // a thread a block of points, transposed
extern const KernelVariant kPointMap;       // a thread a point, or a vector of neighbouring ones

// The first that suits a part computes it: none has an estimate.
inline constexpr const KernelVariant* kMapVariants[] = {&kLastWriterMap, &kOrderFreeMap,  &kOwnedMap,
                                                        &kOrderedMap,    &kTransposedMap, &kPointMap};

// Neighbouring points that one thread computes: what they store are vectors.
int LanesOfMap(const PartContext& context);

}  // namespace rondo::cuda
