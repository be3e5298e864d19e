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

// A stream has always done all its work, so an event only carries a recording from stream to stream, and
// tells the time.
struct HostEvent {
  HostGraph* recording = nullptr;
  bool timed = false;
  uint64_t nanoseconds = 0;    // on the monotonic clock
  GrowingList<uint32_t> last;  // of the recording: what the stream that recorded it had last
};

// What a random order of replay needs, in memory made by EndRecord.
struct ReplayOrder {
  GrowingList<uint32_t> first_after, after;  // per entry: those that come after it
  GrowingList<uint32_t> left,
      ready;  // of a replay: entries that each waits for, and those that wait for none
};

// Immutable after EndRecord but for `order` and the addresses of launches and copies; may be launched any
// number of times, by one thread at a time.
struct HostGraph {
  GrowingList<GraphEntry> entries;
  GrowingList<DeviceAddress> addresses;
  GrowingList<GraphNode> nodes;
  GrowingList<uint32_t> entry_of;  // per node
  GrowingList<uint32_t>
      before;  // per entry: the entries that its stream, events and collectives put before it
  ReplayOrder order;
  int64_t scratch_bytes = 0;  // of one worker: the most that a launch in it needs
  // While recording: the streams that take part and the events recorded in them.
  GrowingList<HostStream*> streams;
  GrowingList<HostEvent*> events;
  uint32_t last_start = kNone;  // the last collective's start, in any stream

  GrowingList<char> ranges;  // kRangeBytes of each worker, where an entry gives a range

  // Adds `entry` at the end of `stream`, and a node of `kind` unless it is a kTime. False when out of memory.
  bool Append(HostStream* stream, GraphEntry entry, StepKind kind);
  // Fills in what does not change in `order`. False when out of memory.
  bool PrepareOrder();
  // Finds launches whose next one begins with the range of all that they write: they take it as they write.
  // False when out of memory.
  bool FindRanges(uint32_t threads);
  // Whether, with the addresses of now, launch `index` writes what the next one reads.
  bool WritesWhatIsRead(size_t index) const;
};

// On the monotonic clock.
uint64_t Nanoseconds();

// Executes what is enqueued at once, on the enqueuing thread. Its scratch is what the graphs recorded with
// it, and the launches outside of graphs, have needed so far; it is given back with the stream.
class HostStream {
 public:
  HostStream(ThreadPool& pool, const HostAllocator& allocator, const Sharing& sharing, Faults& faults,
             CollectiveStream& collectives)
      : pool_(pool), allocator_(allocator), sharing_(sharing), faults_(faults), collectives_(collectives) {}
  ~HostStream();

  // Ends what executes from now on early, once it is asked to.
  void SetStop(StopSignal* stop) { stop_ = stop; }

  // Makes room for launches that need `bytes` a worker, at most kMaxScratchBytes; after an error there is
  // none. Allocates nothing where there is room already.
  Status Reserve(int64_t bytes);

  // Executes one call: what a graph holds, or a call outside of graphs; room is reserved. What goes wrong in
  // it is kept for TakeFault, and nothing is executed until that is called: false.
  bool Execute(const GraphEntry& entry, const DeviceAddress* addresses);
  void Replay(HostGraph* graph);
  // The first fault since the last call.
  Status TakeFault(uint32_t* failed_step);

  HostGraph* recording = nullptr;
  GrowingList<uint32_t> last;  // of the recording: entries that the next one comes after

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
  // Of the launch at hand: where its workers keep the range of what they write; null: nowhere.
  char* range_ = nullptr;
  uint32_t range_workers_ = 0;  // who have done so
  // Where the workers of the launch before kept the range that this one begins with; null: it looks for it.
  const char* known_range_ = nullptr;
  char* scratch_ = nullptr;    // for all workers of one launch
  int64_t scratch_bytes_ = 0;  // of one worker
  FaultCell fault_;
  StopSignal never_;
  StopSignal* stop_ = &never_;
  Status error_;  // of a collective or a custom op, injected, or the signal's
  uint32_t error_step_ = kNone;
};

}  // namespace rondo::host
