// VerifyLifecycle: the proof at run time that a plan's memory is used as the plan says, on any driver.
//
// Takes the plan's programs in order, state carried on, several times over one session: step by step and as
// graphs, with one poison in all memory that is not alive and then with another; then opens, runs and closes
// everything again and again. The README of this folder lists what it finds, and how.
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
  // Inputs, by program; those that are not given are synthetic: integers 0, floats in [-1, 1). In host
  // memory.
  std::vector<std::vector<Input>> inputs;
  uint32_t reopenings = 4;  // up to 8 more as long as the process's heap grows each time
  // Opens the plan again; none: only sessions and runtimes are made anew.
  std::function<Result<Plan>(const PlanOptions& options)> open;
  Span<const uint32_t> devices;  // as RuntimeOptions::devices
  uint64_t timeout_ns = 0;       // of making a session, and of each run; 0: none
  // All memory is looked at after every step while that comes to fewer bytes, in all, than these; else after
  // every second step, or third, ...: a change then belongs to one of those.
  uint64_t scan_bytes = uint64_t{1} << 38;
  // Of host memory, at most, to keep account of device memory in (about five times its bytes): 0: three
  // quarters of what the machine has.
  uint64_t host_bytes = 0;
  // Told what goes on, and how far it is: `done` of `all` steps, programs or openings. On the calling thread.
  std::function<void(const char* what, uint64_t done, uint64_t all)> progress;
};

struct VerifyReport {
  std::vector<Finding> findings;  // in the order they were met; empty: the plan does what it says
  uint64_t steps = 0;             // taken one by one, rounds counted
  uint32_t graph_runs = 0;
  uint32_t reopenings = 0;
  uint64_t stride = 1;        // memory was looked at after so many steps
  uint64_t device_bytes = 0;  // that a session took from the driver, weights included
  bool ok() const { return findings.empty(); }
};

// `driver` must be idle and used by nobody else meanwhile. Errors say why the plan could not be tried at all:
// kUnsupported (a requirement not met), kOutOfMemory, kInvalidArgument (inputs). A broken promise is no error
// but a finding.
Result<VerifyReport> VerifyLifecycle(const Plan& plan, Driver* driver, const VerifyOptions& options = {});

}  // namespace rondo
