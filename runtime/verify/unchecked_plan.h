// UncheckedPlan: a plan that has passed VerifyPlan, but not the checker. For tests of what the lifecycle
// verifier finds by itself. Not in librondo: the runtime opens no such plan.
#pragma once

#include "runtime/plan.h"

namespace rondo {

struct UncheckedPlan {
  // As Plan::FromData. Such a plan stays inside its memory, but may compute anything, and may write into
  // `weights`.
  static Result<Plan> FromData(const PlanData& data, Span<const uint8_t> weights);
};

}  // namespace rondo
