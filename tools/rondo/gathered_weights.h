// What a plan says of weights that its devices keep shares of and gather before their use (--weights gather):
// all-gathers of constants.
#ifndef RONDO_TOOLS_RONDO_GATHERED_WEIGHTS_H_
#define RONDO_TOOLS_RONDO_GATHERED_WEIGHTS_H_

#include <vector>

#include "core/plan.h"
#include "tools/rondo/report.h"

namespace rondo::tools {

// Of one device in one program; bytes.
struct DeviceGathers {
  uint32_t device = 0;
  uint64_t held = 0;     // weights that are there all the time
  uint64_t gathers = 0;  // a run
  uint64_t bytes = 0;    // that they bring together in a run
  uint64_t at_once = 0;  // the most of it that is there at once, in the order of the steps
  uint64_t peak() const { return held + at_once; }
};

// One a device that gathers any, by number.
std::vector<DeviceGathers> GathersOf(const PlanData& plan, const Program& program);

// For people; without rows where nothing is gathered.
Section GatherSection(const PlanData& plan, const Program& program);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_GATHERED_WEIGHTS_H_
