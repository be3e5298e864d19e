// VerifyLifecycle: checks at run time, on any driver, that a plan's memory is used as the plan says.
//
// Runs the plan's programs in order several times in one session, carrying state on: step by step and as
// graphs, first with one poison in all dead memory and then with another. Then it opens, runs and closes
// everything repeatedly. The README of this folder lists what it finds, and how.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/driver.h"
#include "core/status.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "runtime/verify/finding.h"

namespace rondo {

struct VerifyOptions {
  uint32_t program = kNone;  // only this one
  // Inputs by program; missing ones are synthetic: integers 0, floats in [-1, 1). In host memory.
  std::vector<std::vector<Input>> inputs;
  uint32_t reopenings = 4;  // up to 8 more while the process's heap grows each time
  // Opens the plan again; empty: only sessions and runtimes are made again.
  std::function<Result<Plan>(const PlanOptions& options)> open;
  Span<const uint32_t> devices;  // as RuntimeOptions::devices
  uint64_t timeout_ns = 0;       // of creating a session, and of each run; 0: none
  // All memory is scanned after every step while this sums up to fewer bytes than this; otherwise after every
  // second step, or third, ...: a change is then attributed to one of these steps.
  uint64_t scan_bytes = uint64_t{1} << 38;
  // Limits the host memory for tracking device memory (about five times its bytes). 0: three quarters of the
  // machine's memory.
  uint64_t host_bytes = 0;
  // Called with the current activity and its progress: `done` of `all` steps, programs or openings. On the
  // calling thread.
  std::function<void(const char* what, uint64_t done, uint64_t all)> progress;
};

struct VerifyReport {
  std::vector<Finding> findings;  // in the order they were met; empty: the plan behaves as it says
  uint64_t steps = 0;             // executed one by one, all rounds counted
  uint32_t graph_runs = 0;
  uint32_t reopenings = 0;
  uint64_t stride = 1;        // memory was scanned after this many steps
  uint64_t device_bytes = 0;  // that a session took from the driver, weights included
  bool ok() const { return findings.empty(); }
};

// `driver` must be idle, and used by nobody else during the call. Errors say why the plan could not be run at
// all: kUnsupported (a requirement not met), kOutOfMemory, kInvalidArgument (inputs). A broken promise is a
// finding, not an error.
Result<VerifyReport> VerifyLifecycle(const Plan& plan, Driver* driver, const VerifyOptions& options = {});

}  // namespace rondo
