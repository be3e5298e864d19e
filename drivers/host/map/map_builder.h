// Maps: every point by itself.
#pragma once

#include "drivers/host/part_context.h"

namespace rondo::host {

// Estimated nanoseconds of one lane of one tape instruction.
inline constexpr double kInstructionCost = 0.15;

Status BuildMap(PartContext& c, PartProgram** out);

}  // namespace rondo::host
