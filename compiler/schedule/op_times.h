// Times of a program's ops by the cost model (formats/plan/cost_model.h).
#pragma once

#include <vector>

#include "compiler/fusion/lowered.h"
#include "formats/plan/cost_model.h"
#include "formats/plan/timeline.h"

namespace rondo {

// Microseconds by op, over all its rounds. A collective's start has the time of the collective, its wait 0.
std::vector<double> OpTimes(const CostModel& model, const LoweredProgram& program);

// The program as timelines represent it.
TimedSteps TimedStepsOf(const CostModel& model, const LoweredProgram& program);

}  // namespace rondo
