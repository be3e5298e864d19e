// LaunchThreads: one thread a device, for programs that run on several devices at once. Internal to runtime/.
//
// A run enters the queues of all its devices under one lock, so two runs come in the same order on every
// device that they share. The oldest run is therefore at the head of all its queues, and can end. A session
// has at most one run here, and is itself the link in the queue, so a run allocates nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "core/status.h"
#include "core/threads.h"
#include "formats/plan/verifier.h"

namespace rondo {

class RunTimer;
struct SessionImpl;

// The run that a session has on the launch threads. All fields but the first two are guarded by their lock.
struct DeviceRun {
  uint32_t program = 0;
  const RunTimer* timer = nullptr;
  bool arm = false;     // the program is recorded instead of run
  bool hold = false;    // the devices are only kept free of other runs, while the caller uses them itself
  uint64_t queued = 0;  // devices, one bit each, whose threads have not reached this run yet
  std::atomic<uint64_t> left{0};  // devices that have not ended; the lock is needed to change it
  bool failed = false;            // the other devices must end
  Status error;                   // the root cause
  std::condition_variable changed;
};

class LaunchThreads {
 public:
  LaunchThreads() = default;
  LaunchThreads(const LaunchThreads&) = delete;
  LaunchThreads& operator=(const LaunchThreads&) = delete;
  // Ends and joins the threads; nothing may be queued.
  ~LaunchThreads();

  // Starts the threads of `devices` (one bit each) that do not run yet. Must not be called by two threads at
  // once.
  Status Start(const ThreadHooks& hooks, uint64_t devices);

  // Runs `program` of the session (with `timer`, if not null) on `devices`, each on its own thread, and
  // returns when all have ended. Ends them early when the session's signal or its watchdog asks for it. A
  // device that then does not end within the watchdog's time is lost: this run returns without it, the
  // session must not be touched any more, and all later runs are refused. The session must be in use, and the
  // threads started.
  Status Run(SessionImpl* session, uint32_t program, const RunTimer* timer, uint64_t devices);
  // The same, but each device records its partitions.
  Status Arm(SessionImpl* session, uint32_t program, uint64_t devices);
  // Returns when no run but the caller's uses `devices`, which then belong to the caller until EndHold.
  // Otherwise an error that says why the devices are not available.
  Status BeginHold(SessionImpl* session, uint64_t devices);
  void EndHold(SessionImpl* session);

  // Makes Run check the session's signal.
  void Wake(SessionImpl* session);
  // OK, or an error that names the lost device.
  Status lost();

  // --- on a launch thread, for the run that it serves.

  // Records why the run fails on this device, unless another cause has been recorded. Wakes all that wait for
  // this device. If `abort`, ends the collectives of all devices; if `wait`, waits until they have ended.
  void Fail(SessionImpl* session, const Status& status, bool abort, bool wait = true);
  // Device `device` has completed its partitions up to `partition`.
  void Publish(SessionImpl* session, uint32_t device, uint32_t partition);
  // Blocks until `device` has published `partition`. kAborted if the run has failed.
  Status Await(SessionImpl* session, uint32_t device, uint32_t partition);

 private:
  struct Thread {
    LaunchThreads* owner = nullptr;
    uint32_t device = 0;
    void* handle = nullptr;
    bool running = false;
    std::condition_variable wake;
    SessionImpl* first = nullptr;
    SessionImpl* last = nullptr;
  };
  static void* Main(void* thread);
  void Serve(Thread* self);
  void Enqueue(SessionImpl* session, uint64_t devices);
  void Withdraw(SessionImpl* session);
  Status Watch(SessionImpl* session, std::unique_lock<std::mutex>* lock);

  ThreadHooks hooks_;
  std::mutex mutex_;  // guards what follows but `running` and `handle`, and the DeviceRun of sessions
  bool stop_ = false;
  Status lost_;
  Thread threads_[kMaxDevices];
};

}  // namespace rondo
