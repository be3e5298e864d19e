// Encodes PlanData as the bytes of the flatbuffers section.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// Where the next code begins in the machine code section, if the last one ends at byte `end`. The section
// holds the codes of all modules in order.
constexpr uint64_t NextCode(uint64_t end) { return (end + 63) / 64 * 64; }

// The same plan gives the same bytes. Machine code goes into its own section, not here. Error:
// kInvalidArgument if the plan is too large for the section.
Status EncodePlan(const PlanData& plan, std::vector<uint8_t>* out);

}  // namespace rondo
