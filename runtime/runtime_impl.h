// The contents behind a Runtime handle. Internal to runtime/.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "core/arena.h"
#include "core/driver.h"
#include "core/log.h"
#include "core/span.h"
#include "core/status.h"
#include "core/threads.h"
#include "formats/plan/verifier.h"
#include "runtime/launch_threads.h"
#include "runtime/metrics.h"
#include "runtime/run_gate.h"
#include "runtime/run_queue.h"

namespace rondo {

class Plan;
struct LoadedPlan;

// Blocks of weights, arena and state are whole pages.
inline constexpr uint64_t kPageBytes = 4096;

struct RuntimeImpl {
  explicit RuntimeImpl(const HostAllocator& a) : allocator(a), metrics(a) {}

  // The device for a plan's device `index`, opened if needed. The caller holds `mutex`.
  Result<Device*> OpenDevice(uint32_t index);
  // As Runtime::Supports. `loads_next`: the plan is loaded next, so that loading may return the error.
  Status Supports(const Plan& plan, bool loads_next);

  HostAllocator allocator;
  LogHook log;
  ThreadHooks threads;
  Driver* driver = nullptr;
  std::atomic<uint32_t> refs{1};
  std::atomic<uint32_t> sessions{0};
  Metrics metrics;
  uint32_t device_count = 0;                 // how many devices a plan may have here
  uint64_t local = ~uint64_t{0};             // the plan devices of this process, one bit each
  uint32_t driver_device[kMaxDevices] = {};  // the driver's index of each
  std::mutex mutex;                          // guards what follows, and loading and unloading
  Device* devices[kMaxDevices] = {};
  LoadedPlan* loaded = nullptr;  // singly linked
  LaunchThreads launch;          // started with the mutex held
  RunGate gate;                  // of runs on `launch`
  RunQueue queue;                // last, so that its threads end before anything else is destroyed
};

}  // namespace rondo
