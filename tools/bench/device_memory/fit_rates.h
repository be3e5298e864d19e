// FitRates: fits the memory that CUDA takes beside the requested bytes to measured plans. Also prints stated
// and taken bytes as tables.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/device_memory/measured_plan.h"

namespace rondo::bench {

// The rates that fit the plans best. First come the bytes that each further load of the code and each further
// session takes, by least squares over all plans, with no rate below 0. What the first ones take beyond that
// gives the rates paid once. Rates that no plan determines stay as in `start`.
DeviceMemoryRates FitRates(const std::vector<MeasuredPlan>& plans, const DeviceMemoryRates& start);

// Stated against taken bytes for a number of sessions.
struct StatementError {
  uint64_t sessions = 0;
  uint64_t stated = 0;
  int64_t taken = 0;
  int64_t difference() const { return static_cast<int64_t>(stated) - taken; }
  // The difference is at most 1 % of `taken` or 4 MiB.
  bool good() const;
};
// For 1, 2, 8 and all measured sessions, as far as there are so many.
std::vector<StatementError> ErrorsOf(const MeasuredPlan& plan, const DeviceMemoryRates& rates);

// A table with a row for each kind of memory, in MiB: stated, taken, difference.
std::string StageTable(const MeasuredPlan& plan, const DeviceMemoryRates& rates);
// The rates as C++ text for formats/plan/device_memory.h.
std::string RatesText(const DeviceMemoryRates& rates);

}  // namespace rondo::bench
