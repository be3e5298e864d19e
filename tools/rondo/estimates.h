// The compiler's estimates for a run: the time of each kernel and collective, the source of the estimate, and
// measured times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "formats/plan/cost_model.h"
#include "tools/rondo/report.h"

namespace rondo::tools {

// A kernel, a kind of collective, or copies and calls.
struct Estimate {
  std::string what, source;  // the source nodes of its first step
  uint64_t launches = 0;     // per run, on all devices
  double microseconds = 0;   // per launch
  bool from_profile = false;
  double measured = 0;  // measured microseconds; 0: not measured
};

// Longest share of a run first. `measured`: from another profile, or null.
std::vector<Estimate> EstimatesOf(const PlanData& plan, const Program& program,
                                  const MeasuredTimes* measured);
Section EstimateSection(const PlanData& plan, const Program& program, const MeasuredTimes* measured);

// Whether estimates are times of a known machine: from a GPU's table, or measured. The table of a CPU core is
// only good for ranking the steps of a run.
bool EstimatesAreTimes(const PlanData& plan);

// The length of a run in microseconds by `costs`.
double EndWith(const CostModel& costs, const PlanData& plan, const Program& program);

}  // namespace rondo::tools
