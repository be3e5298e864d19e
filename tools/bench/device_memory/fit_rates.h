// FitRates: what CUDA takes beside the bytes that it is asked for, from what devices gave for plans; and the
// two beside each other, as tables.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/device_memory/measured_plan.h"

namespace rondo::bench {

// The rates with which statements come closest. What many loads of the same code and many sessions take each,
// by least squares over all plans, no rate below 0; then what is left of the first. Rates that no plan tells
// stay as in `start`.
DeviceMemoryRates FitRates(const std::vector<MeasuredPlan>& plans, const DeviceMemoryRates& start);

// How far a statement is from what was taken.
struct StatementError {
  uint64_t sessions = 0;
  uint64_t stated = 0;
  int64_t taken = 0;
  int64_t difference() const { return static_cast<int64_t>(stated) - taken; }
  // Within 1 % or 4 MiB.
  bool good() const;
};
// With 1, 2, 8 and all of its sessions, as far as there are so many.
std::vector<StatementError> ErrorsOf(const MeasuredPlan& plan, const DeviceMemoryRates& rates);

// A plan by parts, in MiB: stated, taken, and the difference.
std::string StageTable(const MeasuredPlan& plan, const DeviceMemoryRates& rates);
// As formats/plan/device_memory.h has them.
std::string RatesText(const DeviceMemoryRates& rates);

}  // namespace rondo::bench
