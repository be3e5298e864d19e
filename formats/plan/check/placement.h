// Finding the buffers that share memory; not for use outside this folder.
#ifndef RONDO_FORMATS_PLAN_CHECK_PLACEMENT_H_
#define RONDO_FORMATS_PLAN_CHECK_PLACEMENT_H_

#include "formats/plan/check/program_check.h"

namespace rondo::check {

using OverlapFunction = Status (*)(void* user, uint32_t a, uint32_t b);

// Calls `visit` for each pair of `buffers` (of one region of one device, none of 0 bytes) whose bytes
// overlap, until it returns an error.
Status ForOverlaps(const PlanData& plan, Span<const uint32_t> buffers, Work& work, Arena& scratch, void* user,
                   OverlapFunction visit);

}  // namespace rondo::check

#endif  // RONDO_FORMATS_PLAN_CHECK_PLACEMENT_H_
