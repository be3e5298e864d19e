// Streams and graphs of the host driver.
#ifndef RONDO_DRIVERS_HOST_STREAM_H_
#define RONDO_DRIVERS_HOST_STREAM_H_

#include <atomic>

#include "core/driver.h"
#include "drivers/host/list.h"
#include "drivers/host/module.h"
#include "drivers/host/thread_pool.h"

namespace rondo::host {

class HostStream;
struct HostGraph;
struct HostEvent;

// One recorded call.
struct GraphEntry {
  enum class Kind : uint8_t { kLaunch, kCopy, kFill, kTime } kind = Kind::kLaunch;
  uint8_t byte = 0;
  uint32_t step = 0;
  uint32_t kernel = 0;
  const KernelProgram* program = nullptr;
  size_t first_address = 0;  // into HostGraph::addresses
  DeviceAddress to = 0, from = 0;
  uint64_t bytes = 0;
  HostEvent* event = nullptr;  // kTime
};

// A stream has always done all its work, so an event only carries a recording from stream to stream, and
// tells the time.
struct HostEvent {
  HostGraph* recording = nullptr;
  bool timed = false;
  uint64_t nanoseconds = 0;  // on the monotonic clock
};

// Immutable after EndRecord; may be launched any number of times, by one thread at a time.
struct HostGraph {
  List<GraphEntry> entries;
  List<DeviceAddress> addresses;
  List<GraphNode> nodes;
  // While recording: the streams that take part and the events recorded in them.
  List<HostStream*> streams;
  List<HostEvent*> events;
};

// Scratch for all workers of one launch.
struct ScratchSet {
  char* memory = nullptr;
  int64_t bytes = 0;  // of one worker
  ScratchSet* older = nullptr;
};

// On the monotonic clock.
uint64_t Nanoseconds();

// Executes what is enqueued at once, on the enqueuing thread.
class HostStream {
 public:
  HostStream(ThreadPool& pool, const HostAllocator& allocator, double work_per_thread)
      : pool_(pool), allocator_(allocator), work_per_thread_(work_per_thread > 1 ? work_per_thread : 1) {}
  ~HostStream();

  // Makes room for launches that need `bytes` a worker. May run while another thread launches here.
  Status Reserve(int64_t bytes);

  // Runs the kernel. False (and nothing runs) if Reserve was never called for its module.
  bool Launch(const KernelProgram& kernel, uint32_t index, const DeviceAddress* addresses, uint32_t step);
  void Replay(const HostGraph& graph);
  // The first fault since the last call.
  Status TakeFault(uint32_t* failed_step);

  HostGraph* recording = nullptr;

 private:
  ThreadPool& pool_;
  const HostAllocator allocator_;
  const double work_per_thread_;  // nanoseconds
  std::atomic<ScratchSet*> scratch_{nullptr};
  FaultCell fault_;
};

}  // namespace rondo::host

#endif  // RONDO_DRIVERS_HOST_STREAM_H_
