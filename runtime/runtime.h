// Runtime: a driver's devices, opened once and shared by every session.
//
// A Runtime is a handle: copies share one runtime, which lives until the last copy, and the last session
// made from it, is gone. All functions may be called from any thread. The Driver stays the caller's and
// must outlive the runtime.
//
//   RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::Open("model.rondo"));
//   RONDO_ASSIGN_OR_RETURN(Runtime runtime, Runtime::Create(driver));
//   RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
#pragma once

#include <cstdint>
#include <utility>

#include "core/arena.h"
#include "core/driver.h"
#include "core/log.h"
#include "core/span.h"
#include "core/status.h"
#include "core/threads.h"
#include "runtime/metrics.h"
#include "runtime/plan.h"

namespace rondo {

struct RuntimeImpl;

struct RuntimeOptions {
  // Where host memory comes from; null: RuntimeHostAllocator(). Copied; its `user` must outlive the
  // runtime. Called from any thread that makes or destroys sessions.
  const HostAllocator* allocator = nullptr;
  LogHook log;  // its `user` must outlive the runtime; called from any thread
  // The driver's device for each device index of a plan, opened by Create. A device that is named several
  // times serves that many of the plan's devices, each with memory of its own. Empty: plan device i is the
  // driver's device i, opened when the first session needs it. Over several processes
  // (DriverInfo::processes): the one driver's device for this process's device of the plan; empty: its first.
  Span<const uint32_t> devices;
  // Threads, started by Create, that execute the runs of Session::RunAsync in their order; each serves one
  // run at a time. At most 64; 0: RunAsync is refused.
  uint32_t async_workers = 0;
  // Starts these threads, and those that launch programs of several devices (one a device, shared by all
  // sessions, started by the first Session::Create that needs it); null: DefaultThreadHooks(). Copied.
  const ThreadHooks* threads = nullptr;
  // Keeps the counts of a plan's programs after its last session, and goes on counting when a plan of the
  // same name is loaded again; memory and the text of WriteMetrics then grow with every new name. Otherwise
  // counts are dropped with the last session, and a plan of the same name begins at 0.
  bool keep_plan_totals = false;
};

class Runtime {
 public:
  // An empty handle: only valid(), assignment and destruction are allowed.
  Runtime() = default;
  Runtime(const Runtime& other);
  Runtime(Runtime&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Runtime& operator=(Runtime other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  ~Runtime();

  // Errors: kInvalidArgument (no driver, or a device that the driver lacks), the driver's error for opening a
  // device, kOutOfMemory (this includes threads that cannot be started).
  static Result<Runtime> Create(Driver* driver, const RuntimeOptions& options = {});

  bool valid() const { return impl_ != nullptr; }
  DriverInfo driver_info() const;
  // OK, or the first requirement of `plan` that this runtime's driver and devices do not meet. Loads
  // nothing and allocates no device memory.
  Status Supports(const Plan& plan) const;
  // OK, or the error of a device on which nothing works any more in this process (with CUDA: on all of its
  // devices), or that did not end a run when told to: a supervisor should replace the process. Asks every
  // device in use, except while a plan is being loaded, since loading reports such errors itself. Any thread,
  // at any moment.
  Status Ready() const;
  // Sessions alive now.
  uint32_t session_count() const;
  // Bytes of device memory of all loaded weights (those used in place, in the plan, take none).
  uint64_t weight_bytes() const;
  // Everything counted since Create, including plans that are gone.
  MetricsData metrics() const;
  // The same by plan and program in Prometheus' text format (version 0.0.4), for plans that have sessions
  // (see RuntimeOptions::keep_plan_totals). A series appears once it has counted something. The text is cut
  // at `size` - 1 bytes and ended by a 0. Returns the bytes of the whole text, without the 0. Allocates
  // nothing.
  size_t WriteMetrics(char* text, size_t size) const;
  // Whether the calling thread is one of the runtime's workers, which must not give up the last handle.
  bool on_worker() const;

 private:
  friend class Session;
  explicit Runtime(RuntimeImpl* impl) : impl_(impl) {}
  static void Unref(RuntimeImpl* impl);
  RuntimeImpl* impl_ = nullptr;
};

}  // namespace rondo
