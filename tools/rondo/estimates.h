// The compiler's estimates for a run: how long each kernel and collective takes, where that comes from, and
// what was measured.
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
  uint64_t launches = 0;     // of a run, on all devices
  double microseconds = 0;   // of one
  bool from_profile = false;
  double measured = 0;  // the same as measured; 0: not
};

// The longest share of a run first. `measured`: from another profile; null: none.
std::vector<Estimate> EstimatesOf(const PlanData& plan, const Program& program,
                                  const MeasuredTimes* measured);
Section EstimateSection(const PlanData& plan, const Program& program, const MeasuredTimes* measured);

// Whether estimates are times of a known machine: from a GPU's table, or measured. The table of one CPU core
// only ranks the steps of a run.
bool EstimatesAreTimes(const PlanData& plan);

// The length of a run by `costs`, microseconds.
double EndWith(const CostModel& costs, const PlanData& plan, const Program& program);

}  // namespace rondo::tools
