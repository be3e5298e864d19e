// MeasuredPlan: what a device gave for one plan, call by call, and the same as text.
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

// Bytes that are gone from the device since it was opened, by the kind of call that they went in. Memory may
// come back: numbers can be below 0.
struct TakenBytes {
  int64_t code = 0;     // loading machine code, cuBLASLt's too
  int64_t blocks = 0;   // allocations: weights, arena and state
  int64_t streams = 0;  // making streams
  int64_t graphs = 0;   // instantiating and uploading
  int64_t all = 0;      // these, runs, and whatever else
};

// A plan on one device.
struct MeasuredPlan {
  std::string name;  // without spaces
  DeviceNeeds needs;
  uint64_t start = 0;                // CUDA's own: a process began to use the device
  std::vector<TakenBytes> sessions;  // after 1, 2, ... of them, each of which has run
  std::vector<int64_t> modules;      // after the same code has been loaded 1, 2, ... times over
};

struct MeasureOptions {
  uint64_t sessions = 64;                      // at most,
  uint64_t session_bytes = uint64_t{4} << 30;  // and no more than this for all their blocks but eight
  uint64_t modules = 32;
};

// Loads `plan` on device 0 of `driver`, which nobody else uses, opens sessions one after another, runs each,
// closes all, and loads its code again and again. `start` is left to the caller.
Result<MeasuredPlan> MeasurePlan(const std::string& name, const Plan& plan, Driver* driver,
                                 const MeasureOptions& options = {});

void Write(const MeasuredPlan& plan, std::ostream& out);
// All plans until the end. kInvalidArgument, with the text that is none.
Result<std::vector<MeasuredPlan>> ReadMeasured(std::istream& in);

}  // namespace rondo::bench
