// MeasureProgram: what a run of a program and its steps take on the devices, so that the steps, put together
// as the compiler puts its estimates together, take as long as the run.
#ifndef RONDO_TOOLS_RONDO_MEASURED_PROGRAM_H_
#define RONDO_TOOLS_RONDO_MEASURED_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "core/status.h"
#include "formats/plan/cost_model.h"
#include "runtime/session.h"

namespace rondo::tools {

// Medians, microseconds.
struct MeasuredProgram {
  double run = 0;
  // By step, of one round: with an event before and after it, less what an event costs, which is the same for
  // all steps and such that TimelineOf (formats/plan/plan_timeline.h) ends when the run does; where steps
  // take less than the run even so, that much longer, in proportion. Of a collective's start what `costs`
  // says: devices that wait for one another, and events between its parts, say little of what it takes.
  std::vector<double> steps;
  double event = 0, longer = 1;  // that were taken off, and by which all were multiplied
};

// After a tenth as many runs that are not measured. Of plans whose devices are all in this process.
Result<MeasuredProgram> MeasureProgram(Session& session, uint32_t program, Span<const Input> inputs,
                                       int64_t runs, const CostModel& costs);

// The same of times that were measured: by step, of all its rounds, with events.
MeasuredProgram WithoutEvents(const PlanData& plan, const Program& program, double run,
                              const std::vector<double>& with_events, const CostModel& costs);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_MEASURED_PROGRAM_H_
