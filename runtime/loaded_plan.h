// LoadedPlan: what the sessions of one plan in one runtime share: weights and modules. Internal to
// runtime/.
//
// Loaded by the first session, released by the last. Immutable between, so read from any thread.
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
  DeviceAddress weights = 0;  // the block that holds the constants which are not used in the plan
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
// ReleasePlan. Errors: kOutOfMemory (bytes asked for and free), what the driver says of a kernel.
// Stops between weights when `stop` asks for that.
Result<LoadedPlan*> AcquirePlan(RuntimeImpl* runtime, const Plan& plan, StopSignal* stop);
void ReleasePlan(RuntimeImpl* runtime, LoadedPlan* loaded);

// `bytes` (may be 0: then address 0) on `device`, refused when the machine says it has less. `what` and
// `index` name the block in errors.
Result<DeviceAddress> AllocateOn(Device* device, uint64_t bytes, uint64_t alignment, const char* what,
                                 uint32_t index);

}  // namespace rondo
