// The templates of maps. Internal to compiler/codegen/cuda.
#pragma once

#include <optional>
#include <vector>

#include "compiler/codegen/cuda/part_context.h"

namespace rondo::cuda {

extern const KernelVariant kLastWriterMap;  // writes may collide: the last point writes each place
extern const KernelVariant kOrderFreeMap;   // writes may collide: maxima, minima, integer sums
extern const KernelVariant kOwnedMap;       // writes may collide: a block handles all points of its places
extern const KernelVariant kOrderedMap;  // writes may collide: a thread handles all points that can collide
extern const KernelVariant kTransposedMap;   // a thread computes a block of points, transposed
extern const KernelVariant kSharedIndexMap;  // a thread computes points that read by the same indices
extern const KernelVariant kPointMap;        // a thread computes a point, or a vector of neighbouring ones

// The first that suits a part is used: none has an estimate.
inline constexpr const KernelVariant* kMapVariants[] = {
    &kLastWriterMap, &kOrderFreeMap, &kOwnedMap, &kOrderedMap, &kTransposedMap, &kSharedIndexMap, &kPointMap};

// Neighbouring points that one thread computes, so that it stores vectors.
int LanesOfMap(const PartContext& context);
// The same where only the points of all loops together lie in vectors (odd widths): vectors of points one
// after another. 1: none, or too few of them to keep the GPU busy.
int RunOfMap(const PartContext& context);
// For each operand: whether such vectors of `lanes` points read or write it as vectors.
std::vector<bool> VectorsOfRun(const PartContext& context, int lanes);
// Such vectors of points, or single ones, that a thread of kPointMap computes.
int64_t PointsOfMapThread(const PartContext& context);

// The shape of a kSharedIndexMap: the indices of its reads, which lie apart along the last loop, do not move
// along loop `along`.
struct SharedIndex {
  size_t along = 0;
  int lanes = 1;      // a thread's points along the last loop, at each of its
  int64_t steps = 1;  // steps of `along`, at most
  int64_t threads = 0;
  std::vector<size_t> once;  // operands that a thread reads before its first step
};
// No value: the map has no such reads, or too few points.
std::optional<SharedIndex> SharedIndexOf(const PartContext& context);

}  // namespace rondo::cuda
