// The state of the fake libcuda's machine: memory, streams and the work that waits in them, and the call that
// fails. Internal to the library's files (fake_cuda.h is for tests).
//
// One mutex guards all of it. Functions here, except W, are called with the mutex held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "drivers/cuda/cuda_api.h"
#include "tests/cuda/fake/fake_cuda.h"

namespace rondo::fake_cuda {

using cuda::Address;
using cuda::Error;

inline constexpr Error kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200, kInvalidContext = 201,
                       kInvalidHandle = 400, kNotFound = 500, kNotReady = 600, kPeerEnabled = 704,
                       kUnsupportedInCapture = 900, kCaptureUnmatched = 903, kCaptureIsolation = 905;

using Work = std::function<Error()>;

struct Context {
  int device = 0;
  int retained = 0;
  Error lost = 0;
  std::set<const void*> peers;  // peers whose memory it may access
};
// A captured operation. Its address is its handle.
struct Node {
  Work work;
};
struct Capture {
  std::vector<std::shared_ptr<Node>> nodes;
  std::set<const void*> streams;  // streams that have captured nodes
};
struct Stream {
  Context* context = nullptr;
  struct Item {
    Work work;
    bool copy = false;  // between host and device: the GPU's copy engines do it
  };
  std::deque<Item> queue;
  uint64_t since = 0;  // since when its queue has had work: a counter that grows with each addition
  std::vector<uint64_t>
      numbers;  // of the GPU's queues that it uses: its own and those of its graph's branches
  std::shared_ptr<Capture> capture;
  bool origin = false;
  cuda::NodeHandle last = nullptr;  // the last captured node
};
struct Event {
  std::shared_ptr<Capture> capture;
  // State that running work may still read.
  struct Passing {
    uint64_t recorded = 0, passed = 0;  // number of times
    double milliseconds = 0;            // of the last time
  };
  std::shared_ptr<Passing> passing = std::make_shared<Passing>();
};
struct Function {
  std::string name;
  std::shared_ptr<const LoadedKernel> loaded;  // null: the kernel of that name (SetKernel)
};
struct Module {
  std::map<std::string, Function> functions;
};
struct Graph {
  Context* context = nullptr;
  std::vector<std::shared_ptr<Node>> nodes;
  std::map<const void*, Work> changed;  // changed nodes of an instance
  bool instance = false;
  size_t branches = 1;
  std::vector<uint64_t> numbers;  // of the queues of those beyond the first
};

struct World {
  std::recursive_mutex mutex;
  std::condition_variable_any changed;  // work was added, or done
  Machine machine;
  std::map<std::string, Kernel> kernels;
  Loader loader;
  Context contexts[64];
  std::map<uint64_t, std::pair<uint64_t, Context*>> blocks;  // address: bytes, owner
  std::map<uint64_t, uint64_t> host_blocks;
  std::set<void*> streams, events, modules, graphs;
  bool armed = false;
  uint64_t fail = kNoCall;
  Error error = 0;
  Count count;
  HostCopies copies;
  uint64_t stalls = 0, queued = 0;
  uint64_t queues_taken = 0, came = 0;  // totals so far

  World();
};

World& W();

// The contexts that this thread has pushed.
extern thread_local std::vector<Context*> current;

using Lock = std::lock_guard<std::recursive_mutex>;

// Counts one call that can fail. Returns the error with which it must fail, or 0.
Error Point(const char* name);
// The same for a call that needs a context.
Error ContextPoint(const char* name);

#define POINT(name)     \
  Lock lock(W().mutex); \
  if (const Error point_error = ContextPoint(name); point_error != 0) return point_error

// Does all work, except work that waits for other work to be added.
void Drain();
// For calls that allocate or free memory: a device handles them once all its work is done, and lets no thread
// add work until then. Work that waits for other work to be added would wait for ever; it is counted instead.
void DrainAll();

// Works until `done`. An error of the wait itself ends it and drops the rest of the stream.
template <typename Done>
Error Finish(Error failed, Stream* stream, Done done) {
  World& w = W();
  for (;;) {
    Drain();
    if (failed != 0) {
      if (stream != nullptr) stream->queue.clear();
      return failed;
    }
    if (done()) return current.back()->lost;
    w.changed.wait_for(w.mutex, std::chrono::milliseconds(1));  // kernels also poll host writes
  }
}

// Null if there is no such object.
Stream* ToStream(cuda::StreamHandle handle);
Event* ToEvent(cuda::EventHandle handle);

// Adds work to the stream, or to the graph that it captures.
Error Enqueue(cuda::StreamHandle handle, Work work, bool copy = false);

// Counts the work about to be added, if the stream is not idle.
void CountQueue(cuda::StreamHandle handle);

// Whether a block of the current device holds all of these bytes.
bool IsOwn(Address address, size_t bytes);
bool IsPageLocked(const void* memory);
void CountCopy(const void* host);

template <typename T>
T* Pointer(Address address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace rondo::fake_cuda
