// MeasureProgram: device times of a run and of each step, such that the steps' timeline, built as the
// compiler builds it from estimates, is as long as the run.
#pragma once

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "formats/plan/cost_model.h"
#include "runtime/session.h"

namespace rondo::tools {

// Medians, microseconds.
struct MeasuredProgram {
  double run = 0;
  // Per step, one round: the time between an event before and one after it, less the cost of an event. That
  // cost is the same for all steps, chosen so that TimelineOf (formats/plan/plan_timeline.h) ends when the
  // run does; if the steps are still too short, all are lengthened in proportion. For
  // the start of a collective it is the estimate of `costs`: waiting devices and events between its parts
  // hide what it takes.
  std::vector<double> steps;
  double event = 0, longer = 1;  // the cost taken off each step, and the factor applied to all
};

// Warms up with a tenth as many runs. For plans whose devices are all in this process.
Result<MeasuredProgram> MeasureProgram(Session& session, uint32_t program, Span<const Input> inputs,
                                       int64_t runs, const CostModel& costs);

// The same from measured times: per step, all its rounds, with events.
MeasuredProgram WithoutEvents(const PlanData& plan, const Program& program, double run,
                              const std::vector<double>& with_events, const CostModel& costs);

}  // namespace rondo::tools
