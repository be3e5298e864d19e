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

// Where a tensor of the caller's lies. kDevice: in the memory of its port's device (on drivers with
// host_memory: in this process's own), and `data` is the address there. The caller vouches for that: it is
// not checked.
//
// Order and lifetime: work enqueued to write or read the tensor must be complete before the run. The run's
// own work on it is complete when the run has ended, and the tensor must live until then. Overlap with the
// session's memory, or of a written tensor with any other tensor of the run, is refused.
//
// Steps use such memory directly, without a copy, if all of this holds; otherwise it is copied on the device:
// - The driver can rebind addresses of a recorded graph (DriverInfo::rebinds).
// - The address is a multiple of the buffer's alignment (Buffer::alignment).
// - The plan's steps allow it: not for state, nor for what a step changes in place or a collective or custom
//   op uses, nor for the replicas of an input on other devices.
// - The run is neither stepwise nor timed step by step.
//
// A new address is rebound in the recorded graphs; the address of the last run costs nothing. If a rebinding
// would touch many steps, the tensor is copied until the same address comes twice in a row.
enum class MemoryKind : uint8_t { kHost = 0, kDevice = 1 };

// A tensor given to a run: dense, row-major, any alignment. Only read, during the call; device memory is also
// written if the plan was compiled to give it away (kUpdatedInput, or a buffer that aliases the input's).
struct Input {
  std::string_view name;   // of an input port; empty: `index` says which
  uint32_t index = kNone;  // into Program::inputs, used when `name` is empty
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;
  uint64_t bytes = 0;
  MemoryKind memory = MemoryKind::kHost;
};

// Where a run writes an output (or the state after the run). Written during the call only.
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
  // Called on the caller's thread before and after every step of a stepwise run (in a loop: in each round),
  // when the step's device is idle except for collectives in flight. On each device, steps come in the plan's
  // order, and a wait comes when all ranks have started. It must not itself run a program of several devices.
  // An error ends the run and is returned unchanged; it does not stick.
  Status (*on_step)(void* user, uint32_t program, uint32_t step, StepPhase phase) = nullptr;
  void* user = nullptr;
  // Measures device times of this run (run_timer.h). Not for stepwise runs.
  const RunTimer* timer = nullptr;
  // The run ends with kDeadlineExceeded this many nanoseconds after the call, including the wait in the
  // queue. 0: SessionOptions::run_timeout_ns.
  uint64_t timeout_ns = 0;
};

struct SessionOptions {
  uint64_t timeout_ns = 0;      // of Create, which then ends with kDeadlineExceeded; 0: none
  uint64_t run_timeout_ns = 0;  // of each run whose RunOptions have none; 0: none
  // How long the devices of a run with collectives may report no progress before it ends with kAborted,
  // naming the device, sync point and source node where they stand. 0: a minute; ~0: for ever. A device that
  // has still not ended after the same time again is lost: the run returns anyway, the contents of its
  // tensors are unspecified from then on, and Runtime::Ready returns an error. Destroying such a session
  // frees nothing.
  uint64_t watchdog_ns = 0;
  // The most bytes that the session's arena and state may take on each device; 0: what is free. Decides among
  // the variants of programs (Program::variant_of). Weights, which sessions share, are not counted.
  uint64_t memory_limit = 0;
};
inline constexpr uint64_t kDefaultWatchdogNs = uint64_t{60} * 1000000000;

// Called once when a run that RunAsync accepted has ended, with OK or the error that Run would have returned.
// It runs on one of the runtime's workers, when the session is free again, possibly before RunAsync has
// returned. It may start the session's next run or destroy the session. It must not give up the runtime's
// last handle, nor wait for a run (Session::Wait refuses), and other runs wait while it works. `user` must
// live until the call has returned.
struct Completion {
  void (*call)(const Completion& completion, const Status& status) = nullptr;  // null: no call
  void* user = nullptr;
  void (*function)() = nullptr;  // for adapters to other kinds of callback; not called
};

// A region of one device's memory.
struct DeviceRegion {
  DeviceAddress address = 0;
  uint64_t bytes = 0;
};

// Which positions of caches Session::CopyStatesFrom copies. With a length of 0: all of all states.
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
  //
  // A program with variants runs as the fastest that keeps to SessionOptions::memory_limit; if memory runs
  // out meanwhile, all is given back and made again with variants whose largest arena is smaller. All devices
  // run the same variant. Over several processes only the limit decides, which must be the same in all of
  // them.
  static Result<Session> Create(const Runtime& runtime, const Plan& plan, const SessionOptions& options = {});

  bool valid() const { return impl_ != nullptr; }
  const Plan& plan() const;
  // The program that runs of `program` execute: itself or one of its variants; kNone if it is a variant that
  // was not chosen, or does not exist.
  uint32_t chosen(uint32_t program) const;
  // Why some program runs as a variant: the limit or the free memory, and what the fastest would have taken.
  // OK if all programs run as they are.
  const Status& why_smaller() const;

  // Runs program `program`: copies `inputs` in, replays its partitions, waits, copies `outputs` out. Device
  // memory is used in place where possible (MemoryKind). Every input that is not state must be given once;
  // state given as an input is written before the run. `outputs` may be any of the program's. Never
  // allocates, not even the first time. A program on several devices is launched by one thread for each
  // (RuntimeOptions::threads). The first device that fails ends the others, and its error is returned; it
  // names device, sync point and source node where there is one.
  //
  // Over several processes (DriverInfo::processes) all make the same sessions of the same plan, and the same
  // runs, in the same order. Each gives the inputs that its device needs (others may be given and are
  // ignored) and takes the outputs of its device. An error that ends collectives ends those of all processes,
  // for good.
  Status Run(uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
             const RunOptions& options = {});

  // The same on one of the runtime's workers (RuntimeOptions::async_workers): checks and accepts the run,
  // then returns. The caller's mistakes are returned at once, and `completion` is then not called. The arrays
  // `inputs` and `outputs` are only read during this call; the memory that they point to must live until the
  // run has ended. Until then the session is in use. Allocates nothing.
  Status RunAsync(uint32_t program, Span<const Input> inputs, Span<const Output> outputs,
                  const Completion& completion, const RunOptions& options = {});
  // Returns when no run of RunAsync is under way (its completion may still be); the destructor waits in the
  // same way. On one of the runtime's workers, that is in a completion: kFailedPrecondition if a run is under
  // way. A session destroyed there takes back a run that has not begun, and its completion gets kAborted.
  Status Wait();
  // Ends the run under way, if there is one, with kCancelled. Returns at once; any thread. A time limit ends
  // a run in the same way:
  // - On the host a run ends within a step: kernels check the limit once a tile (some milliseconds at most).
  //   Custom ops and copies complete.
  // - On other devices a run ends between partitions; those already launched complete. With a time limit,
  //   each partition is waited for before the next is launched.
  // - Collectives are aborted, and with them every device that waits for another.
  // - A run in the queue, or behind another session's run on the same devices, ends when it would have begun.
  //
  // A run that has not begun, or whose program uses no state, leaves the session usable; its outputs are
  // unspecified. Otherwise state may be half written: the error sticks until ResetState. On GPUs, aborted
  // collectives also end the session, and every session over the same devices.
  void Cancel();
  // Whether no call and no run uses the session at this moment.
  bool idle() const;
  // Whether one of its devices was lost (SessionOptions::watchdog_ns) and still has not ended. Then nothing
  // that the session uses may be destroyed: not its driver, nor the memory of the last run's tensors.
  bool abandoned() const;

  // Zeroes all state, and clears the error that a stopped run left sticking.
  Status ResetState();
  // Copies all state from `other`, so that a prefix that several sessions share is computed once. `other` is
  // an idle session of the same plan and runtime, and keeps its state; both are in use meanwhile. Copies on
  // each device as many bytes as it has state (DeviceBytes::state); allocates nothing. Clears the error that
  // a stopped run left sticking here; an error that stuck to `other` is returned.
  //
  // States that have `only.length` positions (the last dimension but one, of three or more) get only their
  // first `only.first` positions, by one copy for each row of positions; the others keep their contents here.
  // All other states are copied whole. kInvalidArgument unless 0 <= first <= length. `copied`, if not null,
  // gets the bytes.
  Status CopyStatesFrom(const Session& other, StatePositions only = {}, uint64_t* copied = nullptr);
  // Writes or reads all of the state called `name` (a state port of any program, by its input or output name,
  // or the state's own name). `bytes` must be its size.
  Status WriteState(std::string_view name, const void* data, uint64_t bytes);
  Status ReadState(std::string_view name, void* data, uint64_t bytes);
  // The state's address in this process's memory; only on drivers with host_memory. Its pages hold nothing
  // but state, and no other session's memory.
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
