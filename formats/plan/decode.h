// From a flatbuffers section to PlanData.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// What the file says of the source of a synthetic weight with runs (Buffer::synthetic_run). Readers from
// before there were any would overlook them and make other weights: to those it is an unknown source, which
// they refuse.
inline constexpr uint8_t kSyntheticRuns = 2;

// `bytes` must be aligned to 8 and may end with the call; `plan` points into `arena` and, with machine code,
// into `code`, the section of that. Takes at most
// 16 times the section's size (and 64 KiB) from the arena, whatever the bytes claim. Errors: kCorrupt,
// kOutOfMemory.
Status DecodePlan(Span<const uint8_t> bytes, Span<const uint8_t> code, Arena& arena, PlanData* plan);

}  // namespace rondo
