// Weights of which each device keeps a share and gathers the rest before use (--weights gather), found by the
// all-gathers of constants in a plan.
#pragma once

#include <vector>

#include "core/plan.h"
#include "tools/rondo/report.h"

namespace rondo::tools {

// One device in one program, in bytes.
struct DeviceGathers {
  uint32_t device = 0;
  uint64_t held = 0;     // weights that stay on the device
  uint64_t gathers = 0;  // per run
  uint64_t bytes = 0;    // gathered per run
  uint64_t at_once = 0;  // the most gathered bytes alive at once, in step order
  uint64_t peak() const { return held + at_once; }
};

// One entry per device that gathers, by device number.
std::vector<DeviceGathers> GathersOf(const PlanData& plan, const Program& program);

// As a table; empty if nothing is gathered.
Section GatherSection(const PlanData& plan, const Program& program);

}  // namespace rondo::tools
