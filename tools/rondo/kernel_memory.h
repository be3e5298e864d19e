// KernelMemory: memory for one launch of one kernel, made from its contract. Bytes that it reads are random
// values; all others are canaries.
//
// One block of bytes holds all regions that the launch binds. Canaries lie before, behind and between them
// and wherever no operand reads: in front of a binding's offset, and in the gaps of strided accesses.
// Parameters that the plan's first launch binds to overlapping memory overlap here in the same way. A region
// is aligned exactly as all launches of the plan align it. A canary is NaN in every float type and differs
// from place to place.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo::tools {

// The values of operands that are indices or attention limits.
enum class IndexValues : uint8_t {
  kInRange,     // in their bounds; indices whose range check is silent (Indirect::fault false) now and then
                // outside
  kOneOutside,  // as kInRange, but the first of each parameter's indices lies outside
};

struct KernelMemory {
  uint64_t alignment = 512;      // of the block
  std::vector<uint8_t> bytes;    // the block before the launch
  std::vector<uint64_t> places;  // of each parameter's bound address, from the start of the block
  bool faults = false;           // an index that must be reported is outside its bounds
};

// Deterministic in (plan, kernel, seed, values). `plan` must have passed VerifyPlan.
KernelMemory MakeKernelMemory(const PlanData& plan, uint32_t kernel, uint64_t seed, IndexValues values);

// Calls `place(byte offset in memory.bytes, loop counters)` for every element that operand `index` of `part`
// touches, indices taken from `memory`; once for each point of the loops its address depends on.
void ForEachElement(const KernelMemory& memory, const Part& part, uint16_t index,
                    const std::function<void(uint64_t, const int64_t*)>& place);

}  // namespace rondo::tools
