// TimelineOf: estimates when each step of a plan's program runs, as its compiler did.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "formats/plan/cost_model.h"
#include "formats/plan/timeline.h"

namespace rondo {

// A collective as one device sees it.
struct PlannedCollective {
  uint32_t sync_point = 0, device = 0;
  CollectiveTimes times;
};

// Microseconds from the start of the run.
struct ProgramTimeline {
  // By step. A launch, copy or call: over all its rounds. A collective's start: both are the time at which it
  // is enqueued. A wait: from when its stream stops until the collective is over.
  std::vector<double> begins, ends;
  std::vector<PlannedCollective> collectives;  // by device, in the order in which they start there
  double end = 0;                              // on all devices
};

// The cost model that the compiler used for the plan's target, with its measurements from a profile.
CostModel CostModelOf(const PlanData& plan);
// Time of one round of the step. A collective's start counts the collective, its wait 0.
double StepTime(const CostModel& costs, const PlanData& plan, const Program& program, uint32_t step);

// The origin of a plan's estimates.
struct EstimateOrigins {
  std::string profile;  // empty: the table alone
  size_t kernels = 0, measured_kernels = 0;
  size_t sync_points = 0, measured_sync_points = 0;
  // `the table of H200`, or `profile "0123456789abcdef of NVIDIA H200, sm_90a": 34 of 36 kernels and ...`
  std::string Text() const;
  bool gpu = false;
};
EstimateOrigins OriginsOf(const CostModel& costs, const PlanData& plan);

// `plan` must pass VerifyPlan.
ProgramTimeline TimelineOf(const PlanData& plan, const Program& program);
// The same with given `times` for each step (see StepTime).
ProgramTimeline TimelineOf(const CostModel& costs, const Program& program, const std::vector<double>& times);

}  // namespace rondo
