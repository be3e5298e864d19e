// Decodes the flatbuffers section of a plan into PlanData.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// The file's source number for a synthetic weight with runs (Buffer::synthetic_run). Readers older than runs
// would ignore them and generate other weights; this number is unknown to them, so they refuse the plan.
inline constexpr uint8_t kSyntheticRuns = 2;

// `bytes` must be aligned to 8 and is needed only during the call. `plan` points into `arena` and, with
// machine code, into `code`, its section. Takes at most 16 times the section's size plus 64 KiB from the
// arena, whatever the bytes claim. Errors: kCorrupt, kOutOfMemory.
Status DecodePlan(Span<const uint8_t> bytes, Span<const uint8_t> code, Arena& arena, PlanData* plan);

}  // namespace rondo
