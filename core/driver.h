// The one interface that a driver implements. The runtime drives devices through it and nothing else.
//
// Ownership: a Driver owns its Devices; every other object (Memory, Module, Stream, Event, Graph) is
// made by a Device, handed to the caller, and must be destroyed through the same Device before the
// Device closes. Driver objects are opaque to the caller.
// Threads: different Devices may be used from different threads at once. One Device may be used from
// several threads as long as no two of them use the same Stream, Graph or Event at once; a Recorder
// state belongs to its Stream.
// Run-time promise: Launch (graph), Synchronize, CopyIn, CopyOut, Record, Wait, StartCollective and
// WaitCollective allocate nothing (a recording does).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/plan.h"
#include "core/status.h"

namespace rondo {

struct StopSignal;  // core/stop.h

// An address in a device's memory (a host pointer on `host`).
using DeviceAddress = uint64_t;

class Module;  // the kernels of one plan, ready to launch on one device
class Stream;  // work in order
class Event;   // a point in a stream's order
class Graph;   // a recorded run of work, instantiated and uploaded
// Where the devices of one program of one session meet for its collectives. Made by a Driver.
class Collectives;

struct DriverInfo {
  const char* name = "";     // "host", "cuda"
  bool host_memory = false;  // device addresses are host pointers: weights can be mapped
  bool collectives = false;  // StartCollective works
  // Devices that meet in collectives must record at the same time, each on a thread of its own: recording one
  // rank's part may wait for the others'.
  bool records_together = false;
  // SetAddresses works, for nodes that it does not refuse.
  bool rebinds = false;
  uint32_t driver_version = 0;
  uint32_t max_streams = 1;
  // For processes that run a plan together, one a device: their number, and the index of this one, which runs
  // the plan's device of the same index. The driver's own devices belong to this process alone.
  uint32_t processes = 1, process = 0;
};

// How far one device has come with the collectives of a run, as the device itself notes it: the number of its
// collective starts that it has reached, and how many of these collectives have ended.
struct CollectiveProgress {
  uint32_t started = 0, ended = 0;
};

// One node of a recorded graph. Nodes are in recorded order, so that it can be compared with the plan's
// order.
struct GraphNode {
  uint32_t step = 0;
  StepKind kind = StepKind::kLaunch;
};

// The most that is copied between host and device between two Synchronize calls of a stream: bytes each way,
// with each tensor rounded up to kCopyAlignment, and the number of copies to the host.
struct CopyNeeds {
  uint64_t in = 0, out = 0;
  uint32_t outputs = 0;
};
inline constexpr uint64_t kCopyAlignment = 256;

// One device's part in one sync point. `point` is the program's and must outlive the Collectives.
struct CollectivePart {
  Collectives* collectives = nullptr;
  const SyncPoint* point = nullptr;
  uint32_t sync_point = 0;  // its index in the program
  uint32_t rank = 0;        // of the device among point->participants
  uint32_t step = 0;        // of the plan: the start's or the wait's
};

// The error of assertion `assertion` (TapeOp::kAssertFinite) of step `step` of the plan, which met `value`.
// It names what the assertion is of, as the plan's sources say (formats/plan/assertion_note.h).
Status NotFinite(const PlanData& plan, uint32_t step, uint32_t assertion, double value);

class Device {
 public:
  virtual ~Device() = default;

  // --- memory. Sizes and alignment in bytes; alignment a power of two.
  virtual Result<DeviceAddress> Allocate(uint64_t bytes, uint64_t alignment) = 0;
  virtual void Free(DeviceAddress address, uint64_t bytes) = 0;
  // Free and total bytes of the device (host: of the machine).
  virtual Status MemoryInfo(uint64_t* free_bytes, uint64_t* total_bytes) = 0;
  // Copies in the order of `stream`. `host` must stay valid until the stream has passed the copy. What
  // CopyOut copies is there after Synchronize, not before.
  virtual Status CopyIn(DeviceAddress to, const void* host, uint64_t bytes, Stream* stream) = 0;
  virtual Status CopyOut(void* host, DeviceAddress from, uint64_t bytes, Stream* stream) = 0;
  virtual Status Copy(DeviceAddress to, DeviceAddress from, uint64_t bytes, Stream* stream) = 0;
  virtual Status Fill(DeviceAddress to, uint8_t byte, uint64_t bytes, Stream* stream) = 0;
  // Fills `elements` elements with the synthetic weight (core/synthetic.h) of `key` and `scale`.
  virtual Status FillSynthetic(DeviceAddress to, DType dtype, uint64_t elements, uint64_t key, float scale,
                               Stream* stream) = 0;

  // --- kernels. Prepares all kernels of the plan at once, so that none is loaded lazily. `plan` must outlive
  // the Module. Fails, naming the kernel, if one cannot be run.
  virtual Result<Module*> LoadModule(const PlanData& plan) = 0;
  // The same in two calls: work that needs neither the caller nor the weights (a vendor library's load) may
  // go on on a thread of the driver's until FinishModule, which returns its error. Nothing is launched before
  // that. DestroyModule waits for the work too.
  virtual Result<Module*> BeginModule(const PlanData& plan) { return LoadModule(plan); }
  virtual Status FinishModule(Module*) { return Status::Ok(); }
  virtual void DestroyModule(Module* module) = 0;

  // --- order.
  virtual Result<Stream*> CreateStream() = 0;
  virtual void DestroyStream(Stream* stream) = 0;
  // After this call, CopyIn and CopyOut on `stream` from and to pageable memory do not block other threads
  // that give work to the device. If this takes page-locked memory, it is allocated here, enough for
  // `copies`; larger copies still work. Call it once for each stream. Returns the bytes allocated; 0 where
  // none are needed.
  virtual Result<uint64_t> ReserveStaging(Stream* stream, const CopyNeeds& copies);
  // Work that executes on the stream from now on ends early, with the signal's status, when the signal asks
  // for it: as soon as the driver can, possibly never. `stop` must outlive the stream.
  virtual void SetStop(Stream*, StopSignal*) {}
  virtual Result<Event*> CreateEvent() = 0;
  virtual void DestroyEvent(Event* event) = 0;
  // An event that also takes the device's time when its stream passes it. It may be recorded into a graph.
  virtual Result<Event*> CreateTimedEvent();
  // The time from one timed event to another. The stream must have passed both.
  virtual Result<double> ElapsedMicroseconds(Event* from, Event* to);
  virtual Status Record(Event* event, Stream* stream) = 0;
  virtual Status Wait(Event* event, Stream* stream) = 0;
  // Blocks until all work of the stream is done. Returns the error that occurred in it since the last call,
  // such as an index out of bounds or an aborted collective. The message does not name the step: the caller
  // adds it from *failed_step, with its source node.
  virtual Status Synchronize(Stream* stream, uint32_t* failed_step) = 0;
  // The number of the assertion (TapeOp::kAssertFinite) that failed, if that is the last error that
  // Synchronize returned for the stream; else kNone. For tools.
  virtual uint32_t FailedAssertion(const Stream*) const { return kNone; }

  // --- work. `step` is the plan's step number, kept for Synchronize, traces and order comparison. Errors do
  // not name it: the caller adds it, with its source node. `addresses` has one entry for each parameter of
  // the kernel.
  virtual Status Launch(Module* module, uint32_t kernel, Span<const DeviceAddress> addresses, Stream* stream,
                        uint32_t step) = 0;

  // Calls custom op `op` of the module's plan, which LoadModule prepared. `addresses` has one entry for each
  // argument (0 where it is absent).
  virtual Status Call(Module* module, uint32_t op, Span<const DeviceAddress> addresses, Stream* stream,
                      uint32_t step);

  // --- graphs. BeginRecord makes the stream record instead of run. EndRecord returns the recorded graph,
  // uploaded, with the addresses that were recorded. A graph is launched on the stream that recorded it, and
  // no other.
  virtual Status BeginRecord(Stream* stream) = 0;
  virtual Result<Graph*> EndRecord(Stream* stream) = 0;
  virtual void DestroyGraph(Graph* graph) = 0;
  virtual Span<const GraphNode> Nodes(const Graph* graph) = 0;
  virtual Status LaunchGraph(Graph* graph, Stream* stream) = 0;
  // Only if DriverInfo::rebinds. Node `node` of Nodes(graph) uses these addresses (a copy: from, to) from the
  // next LaunchGraph on; there must be as many as were recorded. Launches in flight keep theirs. Nothing is
  // recorded or allocated. kUnsupported: the addresses of this node cannot change.
  virtual Status SetAddresses(Graph* graph, uint32_t node, Span<const DeviceAddress> addresses);

  // --- collectives. Only if DriverInfo::collectives. Start enqueues on a stream of the device's own, after
  // the work enqueued on `stream` so far; Wait makes `stream` wait for the end. Both are recorded into
  // graphs. Participants meet by Collectives, communicator, and the number of earlier starts of that
  // communicator in the run, so all must start the same sync points in the same order. If two meet with
  // different sync points, both get an error that names both. An aborted collective ends with kAborted.
  // Synchronize returns either error.
  virtual Status StartCollective(const CollectivePart& part, DeviceAddress from, DeviceAddress to,
                                 Stream* stream);
  virtual Status WaitCollective(const CollectivePart& part, Stream* stream);
};

class Driver {
 public:
  virtual ~Driver() = default;
  virtual DriverInfo Info() const = 0;
  virtual uint32_t DeviceCount() const = 0;
  // The device with this index, opened on first use; owned by the driver.
  virtual Result<Device*> Open(uint32_t index) = 0;
  // OK, or which requirement of the plan this driver cannot meet.
  virtual Status Supports(const PlanData& plan) const = 0;
  // The same for a plan that is loaded next. What takes long to find out (whether a vendor's library opens)
  // may go on on a thread of the driver's; then FinishModule returns the error.
  virtual Status Expect(const PlanData& plan) { return Supports(plan); }

  // --- collectives. Only if DriverInfo::collectives. Makes everything that the collectives of `program`
  // need, for one session. The program's device i is this driver's devices[i], already open (over several
  // processes: the device of this process; all of them must call). `program` must outlive the result. The
  // driver may assume that the collectives of all sessions start in one order on all devices of the group.
  // Destroy and Begin may be called from any thread, but for one Collectives by one thread at a time.
  virtual Result<Collectives*> CreateCollectives(const Program& program, Span<const uint32_t> devices);
  virtual void DestroyCollectives(Collectives*) {}
  // Call it before each run of the program, with nothing of an earlier run in flight. Allocates nothing.
  virtual Status BeginCollectives(Collectives*) { return Status::Ok(); }
  // Ends the collectives of this run with kAborted on all devices, those in flight and those that are started
  // later; over several processes on all of them, for good, and the others are told `why`. If `wait`, returns
  // when no collective in flight touches memory any more, possibly never; otherwise at once. May be called
  // from any thread, several times, at any moment.
  virtual void AbortCollectives(Collectives*, [[maybe_unused]] const Status& why,
                                [[maybe_unused]] bool wait) {}
  // The progress that device `device` of the program, one of this process's, has noted in this run. An error
  // means that the collectives cannot go on, because a participating process has ended or has aborted them.
  // Does not block; any thread, any moment.
  virtual Status Progress(Collectives*, uint32_t device, CollectiveProgress* progress);

  // --- several processes. Each reports how far it is in making a session (`so_far`). Returns when all have
  // called as often as this one. One thread at a time. If a process reports an error, has another plan
  // (`contents`, the hash of its contents, differs) or ends, all get an error that names the process; one
  // with an error of its own gets that. After this they can do nothing together any more. Ends early when
  // `stop` asks for it.
  virtual Status Agree(const Status& so_far, std::string_view plan, uint64_t contents, StopSignal* stop);
};

}  // namespace rondo
