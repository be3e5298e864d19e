// The checks of a plan's memory that need only its contracts, no run.
#pragma once

#include "core/status.h"
#include "runtime/verify/accesses.h"
#include "runtime/verify/finding.h"

namespace rondo::verify {

// Finds kLifetime, kInsideStep and kUnordered of program `program`, and kOverlap of state. Error:
// kUnsupported when there is too much to compare.
Status CheckContracts(const PlanData& plan, uint32_t program, const ProgramAccesses& accesses,
                      FindingList* findings);

}  // namespace rondo::verify
