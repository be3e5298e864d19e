// TimelineOf: when each step of a plan's program runs, by estimate: what its compiler counted on.
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
  // By step: of a launch, copy or call, of all its rounds; of a collective's start both when it is enqueued;
  // of a wait, from when its stream stands still to when the collective is over.
  std::vector<double> begins, ends;
  std::vector<PlannedCollective> collectives;  // by device, in the order in which they start there
  double end = 0;                              // on all devices
};

// What the compiler took the devices of the plan's target for, with what it knew from a profile.
CostModel CostModelOf(const PlanData& plan);
// Of one round of its loop; of a collective's start what the collective takes, of its wait nothing.
double StepTime(const CostModel& costs, const PlanData& plan, const Program& program, uint32_t step);

// Where a plan's estimates come from.
struct EstimateOrigins {
  std::string profile;  // empty: the table alone
  size_t kernels = 0, measured_kernels = 0;
  size_t sync_points = 0, measured_sync_points = 0;
  // `the table of H200`, or `profile "0123456789abcdef of NVIDIA H200, sm_90a": 34 of 36 kernels and ...`
  std::string Text() const;
  bool gpu = false;
};
EstimateOrigins OriginsOf(const CostModel& costs, const PlanData& plan);

// `plan` is one that VerifyPlan accepts.
ProgramTimeline TimelineOf(const PlanData& plan, const Program& program);
// The same if steps take `times`, by step, as StepTime has them.
ProgramTimeline TimelineOf(const CostModel& costs, const Program& program, const std::vector<double>& times);

}  // namespace rondo
