// From PlanData to the bytes of the flatbuffers section.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// Where the next code of the machine code section begins, when the last one ends at byte `end` of it: the
// section holds the codes of all modules in their order.
constexpr uint64_t NextCode(uint64_t end) { return (end + 63) / 64 * 64; }

// The same plan gives the same bytes. Machine code is left to its section. Error: kInvalidArgument if it is
// too large for the section.
Status EncodePlan(const PlanData& plan, std::vector<uint8_t>* out);

}  // namespace rondo
