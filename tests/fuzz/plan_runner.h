// PlanRunner: arms a plan on the host driver and runs its programs; those with much work have a time limit.
#pragma once

#include <cstdint>

#include "core/custom_op.h"
#include "core/driver.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/fuzz/memory_meter.h"

namespace rondo::fuzz {

enum class RunEnd {
  kTooLarge,  // valid, but needs more memory than a fuzzer has: not armed
  kNotArmed,  // refused by the driver or the runtime
  kFailed,    // a run ended with an error
  kStopped,   // the time limit ended a run, and its session stayed usable
  kRan,       // every program ran; a run that met an index out of range counts too
};

struct RunLimits {
  uint64_t bytes = 16 << 20;  // weights, arena and state of all devices
  // Programs with more tape instructions and accesses than this, each counted once, may take `run_ns` for a
  // run. Others have no limit, so that their end does not depend on the machine.
  double operations = 1 << 20;
  uint64_t run_ns = 20'000'000;
};

class PlanRunner {
 public:
  PlanRunner();
  ~PlanRunner();
  // `plan` has been verified and checked. Inputs are drawn from `seed`. Ends the process if it allocates
  // memory that the plan does not state.
  RunEnd Run(const Plan& plan, uint64_t seed, const RunLimits& limits = {});

 private:
  Status RunProgram(Session* session, uint32_t program, uint64_t seed, uint64_t timeout_ns);
  MemoryMeter device_memory_{256 << 20}, host_memory_;  // scratch of the driver beyond this is refused
  OpRegistry ops_;
  Driver* drivers_[2] = {};  // with the baseline's instructions, and with the machine's best
};

}  // namespace rondo::fuzz
