// The host driver: runs any verified plan on CPU threads, with no GPU.
//
// Device addresses are host pointers. Virtual devices share the machine's memory and thread pool but keep
// their own books: memory of one is refused where another's is named. Streams execute immediately, on the
// thread that enqueues; work inside one launch is split over the pool. Graphs are lists of prepared launches
// and replay without allocating. Collectives run on a thread of each device, started when the first plan that
// has any is loaded; a stream that waits for one blocks the thread that enqueues, so that devices that meet
// in collectives need a thread each.
//
// Threads: as core/driver.h says. Launches of different devices may come from different threads; the
// worker threads serve one launch at a time and a launch that finds them busy runs on its caller alone.
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

// The moments at which HostFaults can reach a device.
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
  kStep,                // one launch, copy or fill, when it is executed: in a graph's replay, too
  kStartCollective,     // a start, when it is executed
  kWaitCollective,      // a wait, when it is executed
  kPostCollective,      // on the device's collective thread: before it joins the other ranks
  kCompleteCollective,  // on the thread of the last rank to come: before the data moves
};

// What a driver does late, wrong or in another order, for tests. By default nothing.
struct HostFaults {
  uint64_t seed = 0;           // of the delays and the order
  uint32_t most_delay_us = 0;  // at one call in four, a random sleep of up to so many microseconds
  // Graphs replay in a random order that their streams, events and collectives allow; collectives of
  // different communicators or sessions are posted in a random order. The results must not change.
  bool reorder = false;
  // The collective that `fail_device` posts as its `fail_collective`-th, from 0 on, fails. kNone: none.
  uint32_t fail_device = kNone;
  uint64_t fail_collective = 0;
  // Called before each call, from whichever thread makes it; may block. An error is what the call fails with
  // (a failed step, start or wait ends its graph; Synchronize tells). `step` is kNone where the driver does
  // not know it.
  Status (*before)(void* user, HostCall call, uint32_t device, uint32_t step) = nullptr;
  void* user = nullptr;
};

// The memory that one virtual device has given out.
struct HostBooks {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  uint64_t most_bytes = 0;  // ever
};

struct HostOptions {
  uint32_t threads = 1;  // threads of one launch, the caller included; 1: the caller alone; at most 256
  uint32_t devices = 1;  // virtual devices; at most kMaxHostDevices
  // Estimated nanoseconds of work that are worth another thread. Results do not depend on it.
  double work_per_thread = 8000;
  // Where device memory comes from (what Device::Allocate gives out).
  HostAllocator allocator = DefaultHostAllocator();
  // Instruction sets to use: 0 baseline x86-64 (or portable), 1 AVX2 with FMA, 2 AVX-512. The machine's
  // own level bounds it. Tests lower it.
  uint32_t max_isa = 2;
  // Who starts the threads.
  ThreadHooks thread_hooks = DefaultThreadHooks();
  HostFaults faults;
  // Those that run plans together with this one; must outlive the driver. Null: this process alone. Then
  // there is one device.
  Processes* processes = nullptr;
  // Custom ops that plans may call; must outlive the driver. Null: plans that call any are refused.
  const OpRegistry* ops = nullptr;
};

// A driver, to be given back through DestroyHostDriver after everything made by its devices. Fails with
// kInvalidArgument for options out of range and kOutOfMemory when threads or memory cannot be had.
Result<Driver*> CreateHostDriver(const HostOptions& options);
void DestroyHostDriver(Driver* driver);
// What device `device` of a driver made by CreateHostDriver holds now; zeros where there is no such device.
// From any thread.
HostBooks ReadHostBooks(Driver* driver, uint32_t device);
// Which of its instruction sets such a driver uses: "avx512", "avx2" or "baseline".
const char* HostInstructionSet(Driver* driver);

}  // namespace rondo
