// What a plan's compiler expects of a run: how long each kernel and collective takes, where that comes from,
// and beside it what was measured.
#ifndef RONDO_TOOLS_RONDO_ESTIMATES_H_
#define RONDO_TOOLS_RONDO_ESTIMATES_H_

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

// By what they take of a run, the longest first. `measured`: of another profile; null: none.
std::vector<Estimate> EstimatesOf(const PlanData& plan, const Program& program,
                                  const MeasuredTimes* measured);
Section EstimateSection(const PlanData& plan, const Program& program, const MeasuredTimes* measured);

// Whether estimates of a run are times of a machine that is known: by the table of a GPU, or measured. A
// table of one core says what of a run takes long, and not how long on any other machine.
bool EstimatesAreTimes(const PlanData& plan);

// When a run ends by `costs`, microseconds.
double EndWith(const CostModel& costs, const PlanData& plan, const Program& program);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_ESTIMATES_H_
