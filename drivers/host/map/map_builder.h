// Maps: a tape for each point.
#pragma once

#include "drivers/host/part_context.h"

namespace rondo::host {

// Estimated nanoseconds for one lane of a tape instruction.
inline constexpr double kInstructionCost = 0.15;

Status BuildMap(PartContext& c, PartProgram** out);

}  // namespace rondo::host
