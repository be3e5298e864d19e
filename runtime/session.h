// Session: one user's memory for a plan, armed and ready to run its programs.
//
// A session owns an arena and the state (a KV cache, say) on each device, and one graph per partition
// of every program; weights and kernels are shared with the other sessions of the same plan and
// runtime. It keeps its plan and runtime alive. Movable. Different sessions may be used from different
// threads at once; two calls into one session at once are refused with kFailedPrecondition.
//
// Errors: a caller's mistake (a wrong name, dtype, shape) and an index found out of its bounds
// (kOutOfRange) leave the session usable, and so may a run that was stopped (Cancel); any other error sticks,
// and later calls repeat it. After a run that failed, contents of outputs and state are unspecified:
// ResetState starts afresh.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "core/driver.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "core/span.h"
#include "core/status.h"
#include "runtime/plan.h"
#include "runtime/runtime.h"

namespace rondo {

class RunTimer;
struct SessionImpl;

// Where a tensor of the caller's lies. kDevice: in the memory of its port's device (in this process's own on
// drivers with host_memory), `data` being the address there. Whatever has been enqueued to write or read it
// must be complete before the run; the run's own work on it is complete when the run has ended. Until then it
// must stay. It must not overlap the session's memory, and one that is written no other tensor of the run:
// both are refused. That it is the device's memory at all is for the caller to know.
//
// Steps use such memory directly, and no copy is made, where the driver can point a recorded graph elsewhere
// (DriverInfo::rebinds), the address is a multiple of the buffer's alignment (Buffer::alignment), and the
// plan lets them: not state, not what a step changes in place, a collective or a custom op uses, nor the
// replicas of an input on other devices. Otherwise it is copied on the device. What is used directly is told
// to the graphs when the address is another than the run before had, so steady addresses cost nothing; where
// many steps would have to be told, a tensor is copied until its address is given a second time in a row.
// Runs step by step, and those timed step by step, copy.
enum class MemoryKind : uint8_t { kHost = 0, kDevice = 1 };

// A tensor given to a run: dense, row-major, any alignment. Read during the call only; on the device, written
// as well if the plan was compiled to give it away (kUpdatedInput, or a buffer that aliases the input's).
struct Input {
  std::string_view name;   // of an input port; empty: `index` says which
  uint32_t index = kNone;  // into Program::inputs, used when `name` is empty
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;
  uint64_t bytes = 0;
  MemoryKind memory = MemoryKind::kHost;
};

// Where a run leaves an output (or the state after it). Written during the call only.
struct Output {
  std::string_view name;   // of an output port; empty: `index` says which
  uint32_t index = kNone;  // into Program::outputs, used when `name` is empty
  DType dtype = DType::kF32;
  void* data = nullptr;
  uint64_t bytes = 0;  // exactly the port's
  MemoryKind memory = MemoryKind::kHost;
};

enum class StepPhase : uint8_t { kBefore = 0, kAfter = 1 };

struct RunOptions {
  // Replays step by step without graphs, waiting for each step before the next.
  bool stepwise = false;
  // Called on the caller's thread before and after every step (in a loop: once a round) of a stepwise run,
  // with the step's device idle but for collectives in flight. Steps of several devices come in the plan's
  // order on each, and a wait when all ranks have started. Must not run a program of several devices itself.
  // An error ends the run and is returned as it is; it does not stick.
  Status (*on_step)(void* user, uint32_t program, uint32_t step, StepPhase phase) = nullptr;
  void* user = nullptr;
  // Takes the devices' times of this run (run_timer.h). Not of a stepwise one.
  const RunTimer* timer = nullptr;
  // The run ends with kDeadlineExceeded this many nanoseconds after the call, the wait in the queue included.
  // 0: after SessionOptions::run_timeout_ns.
  uint64_t timeout_ns = 0;
};

struct SessionOptions {
  uint64_t timeout_ns = 0;      // of Create, which then ends with kDeadlineExceeded; 0: none
  uint64_t run_timeout_ns = 0;  // of each run whose RunOptions have none; 0: none
  // How long the devices of a run with collectives may note no progress before it ends with kAborted, naming
  // the device, sync point and source node where they stand; 0: a minute, ~0: for ever. A device that does
  // not end as long again after that is lost: the run returns all the same, what its tensors' memory is used
  // for is unspecified from then on, and Runtime::Ready has an error. Destroying such a session gives nothing
  // back.
  uint64_t watchdog_ns = 0;
};
inline constexpr uint64_t kDefaultWatchdogNs = uint64_t{60} * 1000000000;

// What is called, once, when a run that RunAsync accepted has ended: with no error, or with what Run would
// have returned. Called on one of the runtime's workers, when the session is free again, perhaps before
// RunAsync has returned: it may start the session's next run, or destroy the session, but must not give up
// the last handle of the runtime, nor wait for a run (Session::Wait refuses), and keeps others waiting while
// it works. `user` must live until the call has returned.
struct Completion {
  void (*call)(const Completion& completion, const Status& status) = nullptr;  // null: nobody is told
  void* user = nullptr;
  void (*function)() = nullptr;  // for adapters to other kinds of callback; not called
};

// A region of one device's memory.
struct DeviceRegion {
  DeviceAddress address = 0;
  uint64_t bytes = 0;
};

// Which positions of caches are copied (Session::CopyStatesFrom): with a length of 0, all of all states.
struct StatePositions {
  int64_t length = 0, first = 0;
};

class Session {
 public:
  // An empty handle: only valid(), assignment and destruction are allowed.
  Session() = default;
  Session(Session&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(impl_, other.impl_);
    return *this;
  }
  Session(const Session&) = delete;
  ~Session();

  // Loads the plan's weights and kernels unless another session has, allocates arena and state (zeroed,
  // page-aligned), and arms: records every partition of every program into a graph and compares the
  // recorded order with the plan's. Everything that a Run needs is allocated here. Errors: kUnsupported
  // (a requirement that the machine lacks), kOutOfMemory (asked for and available bytes), kInternal (a
  // recorded order that differs), each naming step and source node where there is one.
  static Result<Session> Create(const Runtime& runtime, const Plan& plan, const SessionOptions& options = {});

  bool valid() const { return impl_ != nullptr; }
  const Plan& plan() const;

  // Runs program `program`: copies `inputs` in, replays its partitions, waits, copies `outputs` out; what
  // lies in device memory is used where it is, if it can be (MemoryKind). Every input that is not state must
  // be given, once; state given as an input is written before the run. `outputs` may be any of the program's.
  // Allocates nothing, the first time included. A program on several devices is launched by a thread of each
  // (RuntimeOptions::threads); the first device that fails ends the others, and its error, which names
  // device, sync point and source node where there is one, is returned.
  //
  // Over several processes (DriverInfo::processes) each makes the same sessions of the same plan, and the
  // same runs, in the same order. Each gives the inputs that its device needs (others may be given and are
  // not looked at) and takes the outputs that are its device's. An error that ends collectives ends those of
  // all processes, for good.
  Status Run(uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
             const RunOptions& options = {});

  // The same, on one of the runtime's workers (RuntimeOptions::async_workers): checks and accepts the run and
  // returns. The caller's mistakes are returned at once, and then `completion` is not called. `inputs` and
  // `outputs` are only read during this call; the memory that they point to must stay until the run has
  // ended. Until then the session is in use. Allocates nothing.
  Status RunAsync(uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
                  const Completion& completion, const RunOptions& options = {});
  // Returns when no run of RunAsync is under way (its completion may still be); destruction waits so, too. On
  // one of the runtime's workers, in a completion that is: kFailedPrecondition if there is one. A session
  // destroyed there takes back a run that has not begun, whose completion gets kAborted.
  Status Wait();
  // Ends the run under way, if there is one, with kCancelled, from any thread, and returns at once. How soon
  // it ends, and what becomes of the session: as with a time limit.
  //
  // On host a run ends within a step, kernels looking at its limit once a tile (some milliseconds at most);
  // custom ops and copies come to their end. On other devices it ends between partitions (with a time limit,
  // each is waited for before the next is launched; those that are launched come to their end). Collectives
  // are aborted, and whoever waits for another device with them. A run in the queue, or behind another
  // session's on the same devices, ends when it would have begun.
  //
  // A run that has not begun, or whose program is given no state, leaves the session usable; its outputs are
  // unspecified. Otherwise state may be half written: the error sticks until ResetState. On GPUs, collectives
  // that were aborted end the session, too (as those of every session over the same devices).
  void Cancel();
  // Whether no call and no run is using the session at this moment.
  bool idle() const;
  // Whether one of its devices was lost (SessionOptions::watchdog_ns) and has not ended since. Then nothing
  // that the session uses may be destroyed: its driver, the memory of the last run's tensors.
  bool abandoned() const;

  // Zeroes all state; what a stopped run left sticking is forgotten.
  Status ResetState();
  // All state becomes what `other` has: a prefix that several sessions begin with is computed once. `other`
  // is a session of the same plan and runtime, idle, and keeps its own; both are in use meanwhile. Copies on
  // each device, as many bytes as it has state (DeviceBytes::state), and allocates nothing. What a stopped
  // run left sticking here is forgotten; an error that stuck to `other` is returned.
  //
  // Of the states that have `only.length` positions (the last dim but one, of three or more), the first
  // `only.first` alone are copied, and what lies behind them here stays: a copy a row of positions. All other
  // states are copied whole. kInvalidArgument unless 0 <= first <= length. `copied`, if not null, gets the
  // bytes.
  Status CopyStatesFrom(const Session& other, StatePositions only = {}, uint64_t* copied = nullptr);
  // Writes or reads the whole of the state called `name` (a state port of any program, by its input or
  // output name, or the state's own name). `bytes` must be its size.
  Status WriteState(std::string_view name, const void* data, uint64_t bytes);
  Status ReadState(std::string_view name, void* data, uint64_t bytes);
  // Where the state lies in this process's memory; only on drivers with host_memory. Its pages hold no
  // other session's memory, and nothing but state.
  Result<void*> StateAddress(std::string_view name) const;

  // OK, or the error that stuck.
  Status status() const;

  // --- for verification and traces. Valid as long as the session; contents change with every Run.
  Device* device(uint32_t index) const;   // null: another process has it
  Stream* stream(uint32_t device) const;  // idle between calls
  DeviceRegion arena(uint32_t device) const;
  DeviceRegion state(uint32_t device) const;
  // Where buffer `buffer` of the plan lies for this session (weights included).
  DeviceAddress BufferAddress(uint32_t buffer) const;

 private:
  friend SessionImpl* ImplOf(const Session& session);
  explicit Session(SessionImpl* impl) : impl_(impl) {}
  SessionImpl* impl_ = nullptr;
};

}  // namespace rondo
