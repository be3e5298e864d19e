// Maps whose writes may collide, because their places come from data: helpers for their templates. Internal
// to compiler/codegen/cuda.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// The single operand that a sequential map stores, at a place given by indices that the map does not change.
// If the map reads the memory that it writes, it reads exactly the element that it writes. No value: it is
// another kind of map.
std::optional<size_t> CollidingWrite(const Part& part);

// Each point combines the element that it writes with a value that does not depend on it.
struct Update {
  size_t out = 0;
  TapeOp op = TapeOp::kMax;  // kAdd, kMul, kMax or kMin
  uint16_t value = 0;        // the register with which the element is combined
  uint16_t was = 0;          // the one that the element was loaded into
};

// No value: points do something else.
std::optional<Update> UpdateOf(const Part& part);

// Elements from the first to the last that the operand can reach; 0 if it goes backwards.
int64_t Reach(const Part& part, const Operand& operand);

// Atomic updates that wait for one another: many of few elements. 0: each block of a map of order-free
// updates puts them in memory one by one. Otherwise so many blocks first combine theirs in shared memory.
int64_t BlocksThatShare(const PartContext& context, const Update& update);

// Whether an index of the operand changes along the loop.
bool IndicesMove(const Part& part, const Operand& out, size_t along);

// Whether all sums of one multiple of each stride, below its extent, are different: (stride, extent).
bool AllDifferent(std::vector<std::pair<int64_t, int64_t>> digits);

// Declares the values of the operand's indices at the current point, with negative ones wrapped: `name`0,
// `name`1, ...
void IndexValues(const PartContext& context, const Operand& out, const std::string& name, PartWriter* writer);

}  // namespace rondo::cuda
