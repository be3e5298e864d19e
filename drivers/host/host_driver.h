// The host driver: runs any verified plan on CPU threads, with no GPU.
//
// Device addresses are host pointers. Virtual devices share the machine's memory and thread pool, but
// allocations are tracked by device: memory of another device is refused. Streams execute immediately, on the
// enqueuing thread; the work of one launch is split over the pool. Graphs are lists of prepared launches and
// replay without allocating. Collectives run on one thread for each device, started when the first plan with
// collectives is loaded. A stream that waits for one blocks the enqueuing thread, so devices that meet in
// collectives need a thread each.
//
// Threads: as in core/driver.h. Launches of different devices may come from different threads. The worker
// threads serve one launch at a time; a launch that finds them busy runs on its caller alone.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/custom_op.h"
#include "core/driver.h"
#include "core/status.h"
#include "core/threads.h"
#include "drivers/processes/processes.h"

namespace rondo {

inline constexpr uint32_t kMaxHostDevices = 64;

// The calls at which HostFaults can inject faults.
enum class HostCall : uint8_t {
  kAllocate,
  kCopyIn,
  kCopyOut,
  kCopy,
  kFill,
  kLoadModule,
  kCreateStream,
  kBeginRecord,
  kEndRecord,
  kLaunchGraph,
  kSynchronize,
  kStep,                // one launch, copy or fill, when it executes, also in a graph's replay
  kStartCollective,     // a start, when it executes
  kWaitCollective,      // a wait, when it executes
  kPostCollective,      // on the device's collective thread: before it joins the other ranks
  kCompleteCollective,  // on the thread of the last rank to come: before the data moves
};

// Delays, errors and reorderings that a driver injects, for tests. By default none.
struct HostFaults {
  uint64_t seed = 0;           // of the delays and the order
  uint32_t most_delay_us = 0;  // one call in four sleeps for a random time of up to this many microseconds
  // Graphs replay in a random order that their streams, events and collectives allow; collectives of
  // different communicators or sessions are posted in a random order. Results must not change.
  bool reorder = false;
  // The collective number `fail_collective`, counted from 0, that `fail_device` posts fails. kNone: none.
  uint32_t fail_device = kNone;
  uint64_t fail_collective = 0;
  // Called before each call, on its thread; may block. The call fails with an error that this returns (a
  // failed step, start or wait ends its graph, and Synchronize returns the error). `step` is kNone where the
  // driver does not know it.
  Status (*before)(void* user, HostCall call, uint32_t device, uint32_t step) = nullptr;
  void* user = nullptr;
};

// The memory that one virtual device has allocated.
struct HostBooks {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t most_bytes = 0;  // the peak
};

struct HostOptions {
  uint32_t threads = 1;  // threads of one launch, the caller included; 1: the caller alone; at most 256
  uint32_t devices = 1;  // virtual devices; at most kMaxHostDevices
  // Estimated nanoseconds of work that justify another thread. Results do not depend on it.
  double work_per_thread = 8000;
  // The allocator of device memory (Device::Allocate).
  HostAllocator allocator = DefaultHostAllocator();
  // Instruction sets to use: 0 baseline x86-64 (or portable), 1 AVX2 with FMA, 2 AVX-512; at most the
  // machine's level. Tests lower it.
  uint32_t max_isa = 2;
  // Starts the threads.
  ThreadHooks thread_hooks = DefaultThreadHooks();
  HostFaults faults;
  // The processes that run plans together with this one; must outlive the driver. There is then one device.
  // Null: this process alone.
  Processes* processes = nullptr;
  // Custom ops that plans may call; must outlive the driver. Null: plans that call any are refused.
  const OpRegistry* ops = nullptr;
};

// A driver, to be given back through DestroyHostDriver after everything made by its devices. Fails with
// kInvalidArgument for options out of range and kOutOfMemory when threads or memory cannot be had.
Result<Driver*> CreateHostDriver(const HostOptions& options);
void DestroyHostDriver(Driver* driver);
// The memory that device `device` of a driver made by CreateHostDriver holds now; zeros if there is no such
// device. From any thread.
HostBooks ReadHostBooks(Driver* driver, uint32_t device);
// The instruction set that such a driver uses: "avx512", "avx2" or "baseline".
const char* HostInstructionSet(Driver* driver);

}  // namespace rondo
