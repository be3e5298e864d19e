// MeasureProgram: device times of a run and of each step. The steps' timeline, built as the compiler builds
// it from estimates, is as long as the run.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "formats/plan/cost_model.h"
#include "runtime/session.h"

namespace rondo::tools {

// Medians in microseconds.
struct MeasuredProgram {
  double run = 0;
  // By step, for one round: the time between an event before and an event after it, minus the cost of an
  // event. That cost is the same for all steps, and is chosen so that TimelineOf
  // (formats/plan/plan_timeline.h) ends when the run does. If the steps are still too short, all are
  // lengthened in proportion. The start of a collective has the estimate of `costs`: waiting devices, and
  // events between its parts, hide its real time.
  std::vector<double> steps;
  double event = 0, longer = 1;  // the subtracted cost, and the factor applied to all steps
};

// First warms up with a tenth of `runs`. For plans whose devices are all in this process.
Result<MeasuredProgram> MeasureProgram(Session& session, uint32_t program, Span<const Input> inputs,
                                       int64_t runs, const CostModel& costs);

// The same from measured times: by step, all its rounds, including events.
MeasuredProgram WithoutEvents(const PlanData& plan, const Program& program, double run,
                              const std::vector<double>& with_events, const CostModel& costs);

}  // namespace rondo::tools
