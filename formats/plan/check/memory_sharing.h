// Finds the buffers that share memory; not for use outside this folder.
#pragma once

#include "formats/plan/check/program_check.h"

namespace rondo::check {

using OverlapFunction = Status (*)(void* user, uint32_t a, uint32_t b);

// Places `buffers` into the memory of their devices one after another, and calls visit(user, a, b) whenever b
// covers bytes that a was the last to cover, until it returns an error. A transitive relation that holds for
// all these pairs holds for all buffers that overlap.
Status ForOverlaps(const PlanData& plan, Span<const uint32_t> buffers, Work& work, Arena& scratch, void* user,
                   OverlapFunction visit);

}  // namespace rondo::check
