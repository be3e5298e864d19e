// The host driver: runs any verified plan on CPU threads, with no GPU.
//
// Device addresses are host pointers. Virtual devices share the machine's memory and thread pool but keep
// their own books. Streams execute immediately, on the thread that enqueues; work inside one launch is
// split over the pool. Graphs are lists of prepared launches and replay without allocating.
//
// Threads: as core/driver.h says. Launches of different devices may come from different threads; the
// worker threads serve one launch at a time and a launch that finds them busy runs on its caller alone.
#ifndef RONDO_DRIVERS_HOST_HOST_DRIVER_H_
#define RONDO_DRIVERS_HOST_HOST_DRIVER_H_

#include <cstdint>

#include "core/arena.h"
#include "core/driver.h"
#include "core/status.h"
#include "core/threads.h"

namespace rondo {

struct HostOptions {
  uint32_t threads = 1;  // threads of one launch, the caller included; 1: the caller alone; at most 256
  uint32_t devices = 1;  // virtual devices; at most 64
  // Estimated nanoseconds of work that are worth another thread. Results do not depend on it.
  double work_per_thread = 8000;
  // Where device memory comes from (what Device::Allocate gives out).
  HostAllocator allocator = DefaultHostAllocator();
  // Instruction sets to use: 0 baseline x86-64 (or portable), 1 AVX2 with FMA, 2 AVX-512. The machine's
  // own level bounds it. Tests lower it.
  uint32_t max_isa = 2;
  // Who starts the threads.
  ThreadHooks thread_hooks = DefaultThreadHooks();
};

// A driver, to be given back through DestroyHostDriver after everything made by its devices. Fails with
// kInvalidArgument for options out of range and kOutOfMemory when threads or memory cannot be had.
Result<Driver*> CreateHostDriver(const HostOptions& options);
void DestroyHostDriver(Driver* driver);

}  // namespace rondo

#endif  // RONDO_DRIVERS_HOST_HOST_DRIVER_H_
