// PlanRunner: arms a plan on the host driver and runs its programs, those of much work for a limited time.
#pragma once

#include <cstdint>

#include "core/custom_op.h"
#include "core/driver.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/fuzz/memory_meter.h"

namespace rondo::fuzz {

enum class RunEnd {
  kTooLarge,  // valid, but of more memory than a fuzzer has: not armed
  kNotArmed,  // refused by the driver or the runtime
  kFailed,    // a run ended with an error of its own
  kStopped,   // a run was ended by its time limit, and left a session that can be used
  kRan,       // every program ran; an index out of its bounds counts as such
};

struct RunLimits {
  uint64_t bytes = 16 << 20;  // weights, arena and state of all devices
  // Programs of more tape instructions and accesses than this, each once, have `run_ns` for a run. Those of
  // fewer have no limit, so that how they end does not depend on the machine.
  double operations = 1 << 20;
  uint64_t run_ns = 20'000'000;
};

class PlanRunner {
 public:
  PlanRunner();
  ~PlanRunner();
  // `plan` has been verified and checked. Inputs are drawn from `seed`. Ends the process where memory is
  // asked for that the plan does not state.
  RunEnd Run(const Plan& plan, uint64_t seed, const RunLimits& limits = {});

 private:
  Status RunProgram(Session* session, uint32_t program, uint64_t seed, uint64_t timeout_ns);
  MemoryMeter device_memory_{256 << 20}, host_memory_;  // the driver's scratch may be asked for, not had
  OpRegistry ops_;
  Driver* drivers_[2] = {};  // the baseline's instructions, the machine's best
};

}  // namespace rondo::fuzz
