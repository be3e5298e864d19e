// Finding the buffers that share memory; not for use outside this folder.
#pragma once

#include "formats/plan/check/program_check.h"

namespace rondo::check {

using OverlapFunction = Status (*)(void* user, uint32_t a, uint32_t b);

// Puts `buffers` into the memory of their devices one after another, and calls visit(user, a, b) where b lies
// over bytes that a was the last to lie over; until it returns an error. If what holds of a and b, and of b
// and c, holds of a and c, too, then it holds of all that overlap.
Status ForOverlaps(const PlanData& plan, Span<const uint32_t> buffers, Work& work, Arena& scratch, void* user,
                   OverlapFunction visit);

}  // namespace rondo::check
