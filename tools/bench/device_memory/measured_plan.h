// MeasuredPlan: the device memory that one plan took, call by call; and its text form.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "core/driver.h"
#include "core/status.h"
#include "formats/plan/device_memory.h"
#include "runtime/plan.h"

namespace rondo::bench {

// Bytes taken from the device since it was opened, by kind of call. Calls may also free memory, so numbers
// can be negative.
struct TakenBytes {
  int64_t code = 0;     // loading machine code, cuBLASLt's too
  int64_t blocks = 0;   // allocations: weights, arena and state
  int64_t streams = 0;  // making streams
  int64_t graphs = 0;   // instantiating and uploading
  int64_t all = 0;      // all of these, runs, and whatever else
};

// A plan on one device.
struct MeasuredPlan {
  std::string name;  // without spaces
  DeviceNeeds needs;
  uint64_t start = 0;                // what CUDA takes when a process opens the device
  std::vector<TakenBytes> sessions;  // totals after 1, 2, ... sessions; each has run once
  std::vector<int64_t> modules;      // totals after 1, 2, ... loads of the same code
};

struct MeasureOptions {
  uint64_t sessions = 64;                      // at most
  uint64_t session_bytes = uint64_t{4} << 30;  // for all blocks; eight sessions are always made
  uint64_t modules = 32;
};

// Loads `plan` on device 0 of `driver`, which nobody else may use. Opens sessions one after another and runs
// each, closes all, then loads the code repeatedly. The caller sets `start`.
Result<MeasuredPlan> MeasurePlan(const std::string& name, const Plan& plan, Driver* driver,
                                 const MeasureOptions& options = {});

void Write(const MeasuredPlan& plan, std::ostream& out);
// Reads all plans of `in`. kInvalidArgument names the first line that is malformed.
Result<std::vector<MeasuredPlan>> ReadMeasured(std::istream& in);

}  // namespace rondo::bench
