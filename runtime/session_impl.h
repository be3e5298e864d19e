// The contents behind a Session handle. Internal to runtime/.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "core/arena.h"
#include "core/driver.h"
#include "core/span.h"
#include "core/status.h"
#include "core/stop.h"
#include "runtime/launch_threads.h"
#include "runtime/loaded_plan.h"
#include "runtime/plan.h"
#include "runtime/runtime.h"
#include "runtime/session.h"

namespace rondo {

// One session's memory and streams on one device.
struct SessionDevice {
  Device* device = nullptr;  // null: another process has it
  Module* module = nullptr;
  Span<Stream*> streams;   // [0] carries copies and graphs; the others only appear inside partitions
  Event* order = nullptr;  // forks and joins the streams of a partition; null when there is one stream
  DeviceRegion arena;
  DeviceRegion state;
  uint64_t staging_bytes = 0;  // page-locked, of streams[0]
  // The session's run on the launch threads, guarded by their lock.
  SessionImpl* next_run = nullptr;  // in this device's queue
  uint32_t complete = 0;            // number of partitions known to be complete, from the first on
  // For a stepwise run: the next step to look at, and the last sync point started, plus 1.
  uint32_t next_step = 0;
  uint32_t started = 0;
};

struct ArmedStep {
  Span<DeviceAddress> addresses;  // one per binding
  bool moved = false;             // its node needs new addresses before the next launch
};

struct ArmedPartition {
  Graph* graph = nullptr;  // null: one step that no graph may contain, enqueued at each run
  Span<uint32_t> needs;    // partitions of other devices that must be complete first, the last of each
  bool awaited = false;    // another device's partition needs this one
};

// The caller's tensor for one port of a run. An input's data is only read.
struct BoundPort {
  void* data = nullptr;
  MemoryKind memory = MemoryKind::kHost;
  bool given = false;
  bool direct = false;  // the port's steps use `data` itself

  DeviceAddress address() const { return reinterpret_cast<DeviceAddress>(data); }
};

// A port and the steps that use its memory.
struct ArmedPort {
  BoundPort bound;         // of this run
  Span<uint32_t> steps;    // all of them, if they can be rebound to other memory; else none
  DeviceAddress at = 0;    // the memory that these steps use now
  DeviceAddress last = 0;  // the device memory given most recently
};

struct ArmedProgram {
  // The program that runs execute: itself or, of a program that is no variant, the variant that was chosen,
  // which has all else. kNone: not chosen. `bytes`: of arena and state that it takes on a device.
  uint32_t runs = kNone;
  uint64_t bytes = 0;
  Span<Event*> events;         // made by the device of the step that records them
  Span<uint32_t> recorded_by;  // per event: the step that records it, or kNone
  Span<ArmedStep> steps;
  Span<ArmedPartition> partitions;
  Collectives* collectives = nullptr;  // null without sync points
  bool uses_state = false;             // a step uses memory of the session's state
  // Of this process, one bit per device that has a partition, an input or an output.
  uint64_t devices = 0;
  bool on_launch_threads = false;  // its partitions are on more than one device, here or elsewhere
  Span<ArmedPort> inputs;
  Span<ArmedPort> outputs;
};

// The run that a session has in its runtime's queue.
struct PendingRun {
  uint32_t program = 0;
  RunOptions options;
  Completion completion;
  uint64_t enqueued_at = 0;  // MonotonicNanoseconds
  SessionImpl* next = nullptr;
  bool active = false;               // from Push until the session is free again
  std::atomic<uint32_t> waiting{0};  // threads inside RunQueue::Wait
};

struct SessionImpl {
  SessionImpl(const HostAllocator& a, const Runtime& r, RuntimeImpl* ri, const Plan& p)
      : allocator(a), runtime(r), runtime_impl(ri), plan(p), memory(a) {}

  HostAllocator allocator;
  Runtime runtime;
  RuntimeImpl* runtime_impl;
  Plan plan;
  Arena memory;  // owns the arrays below
  LoadedPlan* loaded = nullptr;
  std::atomic<bool> busy{false};
  StopSignal stop;              // of the run under way, or of Create
  uint64_t run_timeout_ns = 0;  // SessionOptions
  uint64_t watchdog_ns = 0;     // ~0: none
  Status stuck;                 // the first error that sticks
  Span<SessionDevice> devices;
  Span<DeviceAddress> addresses;  // per buffer of the plan
  Span<ArmedProgram> programs;
  uint64_t most_bytes = 0;  // that arena and state may take on a device
  uint64_t bytes = 0;       // that they take at most, with the chosen variants
  Status why_smaller;       // the error because of which a variant was chosen; OK: all are the fastest
  PendingRun pending;
  DeviceRun device_run;

  // Whether a lost device may still touch the session. Not to be called during a run.
  bool abandoned() const { return device_run.left != 0; }
};

// Sets `program` to the one that its runs execute (ArmedProgram::runs).
Status FindChosen(const SessionImpl* session, uint32_t* program);

constexpr bool Has(uint64_t devices, size_t index) { return (devices >> index & 1) != 0; }

// Makes events and step addresses, records every partition of every program into a graph, and compares the
// graph's order with the plan's. Everything made is in `session`, even when this fails.
Status Arm(SessionImpl* session);
// Records the program's partitions on one device.
Status RecordOnDevice(SessionImpl* session, uint32_t program, uint32_t device);
// Launches one partition: its graph or, without one, its single step with its waits. Allocates nothing.
Status LaunchPartition(SessionImpl* session, uint32_t program, uint32_t partition);
// Destroys what Arm made.
void Disarm(SessionImpl* session);
// Enqueues one step on its stream of `device`, in round `round` of its loop. Arm records this, and a stepwise
// run executes it.
Status EnqueueStep(SessionImpl* session, uint32_t program, uint32_t step, uint32_t round);

// The session behind a handle.
inline SessionImpl* ImplOf(const Session& session) { return session.impl_; }

// Whether `timer` was made for this program of the session.
Status CheckTimer(const RunTimer& timer, const SessionImpl* session, uint32_t program);
// Whether it has graphs of its own, which keep the addresses they were recorded with.
bool TimesSteps(const RunTimer& timer);
// Launches partition `partition` in the way that `timer` needs.
Status LaunchTimed(const RunTimer& timer, uint32_t partition);
// Runs one program step by step on the caller's thread. The devices must be idle and not used by any other
// run. Sets `observer` if the error came from RunOptions::on_step.
Status ReplaySteps(SessionImpl* session, uint32_t program, const RunOptions& options, bool* observer);

// On a launch thread: runs this device's part of the session's run, and waits for it. Errors go to
// LaunchThreads::Fail.
void RunOnDevice(SessionImpl* session, uint32_t device);
// Ends the program's collectives in flight, if it has any (Driver::AbortCollectives).
void AbortCollectives(SessionImpl* session, uint32_t program, const Status& why, bool wait);

// Executes and counts the pending run of a session that is in use.
Status ExecutePending(SessionImpl* session);

class SessionUse;
// Session::Run and Session::RunAsync for a session that the caller holds. A run that was accepted owns the
// session: its completion may have destroyed it.
Status RunHeld(SessionUse* use, SessionImpl* session, uint32_t program, Span<const Input> inputs,
               Span<const Output> outputs, const RunOptions& options);
Status RunAsyncHeld(SessionUse* use, SessionImpl* session, uint32_t program, Span<const Input> inputs,
                    Span<const Output> outputs, const Completion& completion, const RunOptions& options);

// Checks the caller's tensors against the ports of `program` and stores them there. `direct`: steps may use
// device memory in place.
Status BindTensors(SessionImpl* session, uint32_t program, Span<const Input> inputs,
                   Span<const Output> outputs, bool direct);
// Resets the ports of `program`, as if the caller had given nothing.
void ForgetTensors(SessionImpl* session, uint32_t program);

// The buffer whose memory `buffer` uses: itself, or the one that it took over, directly or not.
uint32_t OwnerOf(const PlanData& data, uint32_t buffer);

// Finds the steps of each port that can be rebound. The program must be recorded.
Status FindPortSteps(SessionImpl* session, uint32_t program);
// Rebinds the steps of the ports on `devices` to this run's memory: the caller's where it is bound directly,
// otherwise the session's. Allocates nothing.
Status PlacePorts(SessionImpl* session, uint32_t program, uint64_t devices);
// The partition that step `step` belongs to.
uint32_t PartitionOf(const Program& program, uint32_t step);
// The graph node of step `step` of partition `p` (in a loop: of its first round); for the step after the
// last, the number of nodes.
uint32_t NodeOf(const Program& program, const Partition& p, uint32_t step);

// `status` with the program and the step; in plans of several devices also with device and sync point.
// Records the ONNX node.
Status AtStep(const SessionImpl* session, const Status& status, uint32_t program, uint32_t step);

// kOutOfMemory: no host memory for a session's `what`.
Status NoMemoryFor(const char* what);

// Makes `status` the session's permanent error, unless it is OK or there already is one. The caller must hold
// the session.
Status StickTo(SessionImpl* session, Status status);

// Marks a session as in use for a scope; an error if another call uses it.
class SessionUse {
 public:
  explicit SessionUse(SessionImpl* session);
  SessionUse(const SessionUse&) = delete;
  SessionUse& operator=(const SessionUse&) = delete;
  ~SessionUse();
  const Status& status() const { return status_; }
  bool held() const { return held_; }
  // Whether the session is held and has an error that stuck.
  bool stuck() const { return held_ && !session_->stuck.ok(); }
  Status Stick(Status status) { return StickTo(session_, std::move(status)); }
  // Leaves the session in use: the new owner frees it.
  void Release() { held_ = false; }

 private:
  SessionImpl* session_;
  Status status_;
  bool held_ = false;
};

}  // namespace rondo
