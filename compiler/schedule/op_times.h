// What the cost model (formats/plan/cost_model.h) says of a program's ops.
#pragma once

#include <vector>

#include "compiler/fusion/lowered.h"
#include "formats/plan/cost_model.h"
#include "formats/plan/timeline.h"

namespace rondo {

// By op, microseconds, of all its rounds. Of a collective's start, what the collective takes; of its wait,
// nothing.
std::vector<double> OpTimes(const CostModel& model, const LoweredProgram& program);

// The program as timelines have it.
TimedSteps TimedStepsOf(const CostModel& model, const LoweredProgram& program);

}  // namespace rondo
