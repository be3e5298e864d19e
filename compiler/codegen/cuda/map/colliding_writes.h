// Maps whose writes may coincide because data says where they go: what their templates have in common.
// Internal to compiler/codegen/cuda.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// The one operand that a sequential map stores, to a place that indices say, which the map does not change.
// What it reads of the memory it writes is the very element that it writes. None: it is no such map.
std::optional<size_t> CollidingWrite(const Part& part);

// Whether an index of the operand moves along the loop.
bool IndicesMove(const Part& part, const Operand& out, size_t along);

// Whether sums of one multiple of each stride, so many of them, are all different: (stride, extent).
bool AllDifferent(std::vector<std::pair<int64_t, int64_t>> digits);

// Declares the values of the operand's indices at the current point, counted from the front: `name`0,
// `name`1, ...
void IndexValues(const PartContext& context, const Operand& out, const std::string& name, PartWriter* writer);

}  // namespace rondo::cuda
