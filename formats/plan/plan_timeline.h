// TimelineOf: when each step of a plan's program runs, by estimate: what its compiler counted on.
#ifndef RONDO_FORMATS_PLAN_PLAN_TIMELINE_H_
#define RONDO_FORMATS_PLAN_PLAN_TIMELINE_H_

#include <cstdint>
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

// What the compiler takes the devices of the plan's target for.
CostModel CostModelOf(const PlanData& plan);
// Of one round of its loop; of a collective's start what the collective takes, of its wait nothing.
double StepTime(const CostModel& costs, const PlanData& plan, const Program& program, uint32_t step);

// `plan` is one that VerifyPlan accepts.
ProgramTimeline TimelineOf(const PlanData& plan, const Program& program);

}  // namespace rondo

#endif  // RONDO_FORMATS_PLAN_PLAN_TIMELINE_H_
