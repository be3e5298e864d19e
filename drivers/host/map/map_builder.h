// Maps: every point by itself.
#ifndef RONDO_DRIVERS_HOST_MAP_MAP_BUILDER_H_
#define RONDO_DRIVERS_HOST_MAP_MAP_BUILDER_H_

#include "drivers/host/part_context.h"

namespace rondo::host {

// Estimated nanoseconds of one lane of one tape instruction.
inline constexpr double kInstructionCost = 0.15;

Status BuildMap(PartContext& c, PartProgram** out);

}  // namespace rondo::host

#endif  // RONDO_DRIVERS_HOST_MAP_MAP_BUILDER_H_
