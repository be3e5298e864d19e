// Streams and graphs of the host driver.
#pragma once

#include "core/driver.h"
#include "core/list.h"
#include "drivers/host/collectives.h"
#include "drivers/host/faults.h"
#include "drivers/host/module.h"
#include "drivers/host/sharing.h"
#include "drivers/host/thread_pool.h"

namespace rondo::host {

class HostStream;
struct HostGraph;
struct HostEvent;

// One recorded call.
struct GraphEntry {
  enum class Kind : uint8_t { kLaunch, kCopy, kFill, kStart, kWait, kTime, kCall } kind = Kind::kLaunch;
  uint8_t byte = 0;
  uint32_t step = kNone;
  uint32_t kernel = 0;
  const KernelProgram* program = nullptr;
  const CallProgram* call = nullptr;  // kCall
  size_t first_address = 0;           // into HostGraph::addresses
  size_t num_addresses = 0;
  DeviceAddress to = 0, from = 0;
  uint64_t bytes = 0;
  HostEvent* event = nullptr;  // kTime
  CollectivePart part;
  size_t first_before = 0, num_before = 0;  // into HostGraph::before
  bool gives_range = false;                 // see HostGraph::FindRanges
};

// A stream has always finished its work, so an event only carries a recording from stream to stream, and
// takes the time.
struct HostEvent {
  HostGraph* recording = nullptr;
  bool timed = false;
  uint64_t nanoseconds = 0;    // on the monotonic clock
  GrowingList<uint32_t> last;  // of the recording: the last entries of the stream that recorded it
};

// Data for replay in a random order; EndRecord allocates it.
struct ReplayOrder {
  GrowingList<uint32_t> first_after, after;  // for each entry: the entries that come after it
  GrowingList<uint32_t> left,
      ready;  // during a replay: the number of entries that each still waits for, and those that wait for
              // none
};

// Immutable after EndRecord, except for `order` and the addresses of launches and copies. May be launched any
// number of times, by one thread at a time.
struct HostGraph {
  GrowingList<GraphEntry> entries;
  GrowingList<DeviceAddress> addresses;
  GrowingList<GraphNode> nodes;
  GrowingList<uint32_t> entry_of;  // per node
  GrowingList<uint32_t>
      before;  // per entry: the entries that its stream, events and collectives put before it
  ReplayOrder order;
  int64_t scratch_bytes = 0;  // of one worker: the maximum over its launches
  // While recording: the streams that take part and the events recorded in them.
  GrowingList<HostStream*> streams;
  GrowingList<HostEvent*> events;
  uint32_t last_start = kNone;  // the last collective's start, in any stream

  GrowingList<char> ranges;  // kRangeBytes of each worker, where an entry gives a range

  // Adds `entry` at the end of `stream`, and a node of `kind` unless the entry is a kTime. False when out of
  // memory.
  bool Append(HostStream* stream, GraphEntry entry, StepKind kind);
  // Fills in the constant parts of `order`. False when out of memory.
  bool PrepareOrder();
  // Finds launches that write all the data whose range the next launch computes first: they compute the range
  // while they write. False when out of memory.
  bool FindRanges(uint32_t threads);
  // Whether, with the current addresses, launch `index` writes the data that the next one reads.
  bool WritesWhatIsRead(size_t index) const;
};

// On the monotonic clock.
uint64_t Nanoseconds();

// Executes enqueued work at once, on the enqueuing thread. Its scratch grows to what its recorded graphs and
// its launches outside graphs need; it is freed with the stream.
class HostStream {
 public:
  HostStream(ThreadPool& pool, const HostAllocator& allocator, const Sharing& sharing, Faults& faults,
             CollectiveStream& collectives)
      : pool_(pool), allocator_(allocator), sharing_(sharing), faults_(faults), collectives_(collectives) {}
  ~HostStream();

  // From now on, ends work early when `stop` asks for it.
  void SetStop(StopSignal* stop) { stop_ = stop; }

  // Makes room for launches that need `bytes` for each worker, at most kMaxScratchBytes; after an error there
  // is no room. Allocates nothing if there is enough room.
  Status Reserve(int64_t bytes);

  // Executes one call, from a graph or outside graphs; its room is reserved. False after an error, which is
  // kept for TakeFault; until that is called, nothing else executes.
  bool Execute(const GraphEntry& entry, const DeviceAddress* addresses);
  void Replay(HostGraph* graph);
  // The first fault since the last call.
  Status TakeFault(uint32_t* failed_step);
  // Of the last fault taken; kNone: it was none of an assertion.
  uint32_t failed_assertion() const { return failed_assertion_; }

  HostGraph* recording = nullptr;
  GrowingList<uint32_t> last;  // of the recording: the entries that must precede the next one

 private:
  void ReleaseScratch();
  void Launch(const KernelProgram& kernel, uint32_t index, const DeviceAddress* addresses, uint32_t step);
  Status Try(const GraphEntry& entry, const DeviceAddress* addresses);
  void ReplayInRandomOrder(HostGraph* graph);

  ThreadPool& pool_;
  const HostAllocator allocator_;
  const Sharing sharing_;
  Faults& faults_;
  CollectiveStream& collectives_;
  // Where the workers of the current launch keep the range of what they write; null: nowhere.
  char* range_ = nullptr;
  uint32_t range_workers_ = 0;  // number of workers that did so
  // Where the workers of the last launch kept the range that this one needs first; null: it computes the
  // range.
  const char* known_range_ = nullptr;
  char* scratch_ = nullptr;    // for all workers of one launch
  int64_t scratch_bytes_ = 0;  // of one worker
  FaultCell fault_;
  const PlanData* plan_ = nullptr;  // whose kernels it launches
  StopSignal never_;
  StopSignal* stop_ = &never_;
  Status error_;  // of a collective or a custom op, injected, or from the signal
  uint32_t error_step_ = kNone;
  uint32_t failed_assertion_ = kNone;
};

}  // namespace rondo::host
