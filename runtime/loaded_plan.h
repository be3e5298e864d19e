// LoadedPlan: the weights and modules that the sessions of one plan in one runtime share. Internal to
// runtime/.
//
// Loaded by the first session, released by the last. Immutable in between, so any thread may read it.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/driver.h"
#include "core/span.h"
#include "core/status.h"
#include "core/stop.h"
#include "runtime/plan.h"
#include "runtime/runtime_impl.h"

namespace rondo {

struct LoadedDevice {
  Device* device = nullptr;
  Module* module = nullptr;
  DeviceAddress weights = 0;  // the block of the constants that are not used in place, in the plan
  uint64_t weight_bytes = 0;  // of that block
};

struct LoadedPlan {
  explicit LoadedPlan(const Plan& p, const HostAllocator& allocator) : plan(p), memory(allocator) {}

  Plan plan;
  Arena memory;  // owns the arrays below
  uint32_t sessions = 0;
  Span<LoadedDevice> devices;     // one per device of the plan
  Span<DeviceAddress> constants;  // one per buffer of the plan; 0 where it is not a constant
  Span<RunCounters*> counters;    // one per program, held here; the runtime's
  LoadedPlan* next = nullptr;
};

// The plan's entry in `runtime`, loaded if this is its first session. Each success must be matched by one
// ReleasePlan. Errors: kOutOfMemory (bytes asked for and free), the driver's error for a kernel. Stops
// between weights when `stop` asks for it.
Result<LoadedPlan*> AcquirePlan(RuntimeImpl* runtime, const Plan& plan, StopSignal* stop);
void ReleasePlan(RuntimeImpl* runtime, LoadedPlan* loaded);

// Allocates `bytes` on `device` (0 bytes: address 0); an error when the machine reports less free memory.
// `what` and `index` name the block in errors.
Result<DeviceAddress> AllocateOn(Device* device, uint64_t bytes, uint64_t alignment, const char* what,
                                 uint32_t index);

}  // namespace rondo
