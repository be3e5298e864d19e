#include "tests/cuda/fake/fake_cuda.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "drivers/cuda/cuda_api.h"

namespace rondo::fake_cuda {
namespace {

using cuda::Address;
using cuda::Error;

constexpr Error kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200, kInvalidContext = 201,
                kInvalidHandle = 400, kNotFound = 500, kNotReady = 600, kUnsupportedInCapture = 900,
                kCaptureUnmatched = 903, kCaptureIsolation = 905;

using Work = std::function<Error()>;

struct Context {
  int device = 0;
  int retained = 0;
  Error lost = 0;
};
// Something captured. Its address is its handle.
struct Node {
  Work work;
};
struct Capture {
  std::vector<std::shared_ptr<Node>> nodes;
};
struct Stream {
  Context* context = nullptr;
  std::deque<Work> queue;
  std::shared_ptr<Capture> capture;
  bool origin = false;
  cuda::NodeHandle last = nullptr;  // captured
};
struct Event {
  std::shared_ptr<Capture> capture;
  // What work that is under way may still ask.
  struct Passing {
    uint64_t recorded = 0, passed = 0;  // how often
    double milliseconds = 0;            // of the last
  };
  std::shared_ptr<Passing> passing = std::make_shared<Passing>();
};
struct Function {
  std::string name;
};
struct Module {
  std::map<std::string, Function> functions;
};
struct Graph {
  Context* context = nullptr;
  std::vector<std::shared_ptr<Node>> nodes;
  std::map<const void*, Work> changed;  // of an instance, by node
};

struct World {
  std::recursive_mutex mutex;
  std::condition_variable_any changed;  // work was added, or done
  Machine machine;
  std::map<std::string, Kernel> kernels;
  Context contexts[64];
  std::map<uint64_t, std::pair<uint64_t, Context*>> blocks;  // address: bytes, whose
  std::map<uint64_t, uint64_t> host_blocks;
  std::set<void*> streams, events, modules, graphs;
  bool armed = false;
  uint64_t fail = kNoCall;
  Error error = 0;
  Count count;
  HostCopies copies;

  World() {
    const char* text = std::getenv("RONDO_FAKE_CUDA");
    auto take = [text](const char* key, int* value) {
      const char* at = text == nullptr ? nullptr : std::strstr(text, key);
      if (at != nullptr) *value = std::atoi(at + std::strlen(key));
    };
    take("version=", &machine.version);
    take("devices=", &machine.devices);
    take("init=", &machine.init_error);
    for (int i = 0; i < 64; ++i) contexts[i].device = i;
  }
};

World& W() {
  static World* world = new World;
  return *world;
}

thread_local std::vector<Context*> current;

using Lock = std::lock_guard<std::recursive_mutex>;

// Counts one call that can fail, and says what it fails with.
Error Point(const char* name) {
  World& w = W();
  if (!w.armed || w.count.calls++ != w.fail) return 0;
  w.count.fired = true;
  w.count.failed = name;
  if (w.error >= 700 && w.error < 800) {  // of kernels
    for (Context& context : w.contexts) context.lost = w.error;
  }
  return w.error;
}

// The same for a call that needs a context.
Error ContextPoint(const char* name) {
  if (current.empty()) return kInvalidContext;
  if (const Error error = Point(name); error != 0) return error;
  return current.back()->lost;
}

#define POINT(name)     \
  Lock lock(W().mutex); \
  if (const Error point_error = ContextPoint(name); point_error != 0) return point_error

// Does all the work there is, but what waits for other work to be added.
void Drain() {
  World& w = W();
  for (bool moved = true; moved;) {
    moved = false;
    for (void* handle : std::vector<void*>(w.streams.begin(), w.streams.end())) {
      auto* stream = static_cast<Stream*>(handle);
      while (!stream->queue.empty()) {
        const Error error = stream->context->lost != 0 ? stream->context->lost : stream->queue.front()();
        if (error == kNotYet) break;
        stream->queue.pop_front();
        moved = true;
        if (error == 0) continue;
        for (Context& other : w.contexts) other.lost = error;  // as CUDA does: the process is spoiled
      }
    }
    if (moved) w.changed.notify_all();
  }
}

// Works until `done`. An error of the wait itself ends it, and what is left of the stream.
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
    w.changed.wait(w.mutex);
  }
}

Stream* ToStream(cuda::StreamHandle handle) {
  return W().streams.count(handle) != 0 ? reinterpret_cast<Stream*>(handle) : nullptr;
}
Event* ToEvent(cuda::EventHandle handle) {
  return W().events.count(handle) != 0 ? reinterpret_cast<Event*>(handle) : nullptr;
}

Error Enqueue(cuda::StreamHandle handle, Work work) {
  Stream* stream = ToStream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->context != current.back()) return kInvalidContext;
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back(std::make_shared<Node>(Node{std::move(work)}));
    stream->last = reinterpret_cast<cuda::NodeHandle>(stream->capture->nodes.back().get());
  } else {
    stream->queue.push_back(std::move(work));
    W().changed.notify_all();
  }
  return 0;
}

// Whether a block of the current device holds all of these bytes.
bool IsOwn(Address address, size_t bytes) {
  auto after = W().blocks.upper_bound(address);
  if (after == W().blocks.begin()) return false;
  const auto& [first, block] = *std::prev(after);
  return block.second == current.back() && address + bytes <= first + block.first;
}

bool IsPageLocked(const void* memory) {
  const auto address = reinterpret_cast<uint64_t>(memory);
  auto after = W().host_blocks.upper_bound(address);
  return after != W().host_blocks.begin() && address < std::prev(after)->first + std::prev(after)->second;
}

void CountCopy(const void* host) {
  if (IsPageLocked(host)) {
    ++W().copies.page_locked;
  } else if (!IsMemory(reinterpret_cast<Address>(host))) {
    ++W().copies.ordinary;
  }
}

template <typename T>
T* Pointer(Address address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace

void SetMachine(const Machine& machine) {
  Lock lock(W().mutex);
  W().machine = machine;
}

void SetKernel(const std::string& name, Kernel kernel) {
  Lock lock(W().mutex);
  W().kernels[name] = std::move(kernel);
}

void RemoveKernel(const std::string& name) {
  Lock lock(W().mutex);
  W().kernels.erase(name);
}

Balance Held() {
  Lock lock(W().mutex);
  World& w = W();
  Balance held;
  for (const Context& context : w.contexts) held.contexts += context.retained;
  held.modules = static_cast<int64_t>(w.modules.size());
  held.streams = static_cast<int64_t>(w.streams.size());
  held.events = static_cast<int64_t>(w.events.size());
  held.graphs = static_cast<int64_t>(w.graphs.size());
  held.blocks = static_cast<int64_t>(w.blocks.size());
  for (const auto& [address, block] : w.blocks) held.bytes += static_cast<int64_t>(block.first);
  held.host_blocks = static_cast<int64_t>(w.host_blocks.size());
  return held;
}

HostCopies CountHostCopies() {
  Lock lock(W().mutex);
  return W().copies;
}

void Arm(uint64_t fail, int error) {
  Lock lock(W().mutex);
  W().armed = true;
  W().fail = fail;
  W().error = error;
  W().count = Count();
}

Count Disarm() {
  Lock lock(W().mutex);
  W().armed = false;
  return W().count;
}

void Heal() {
  Lock lock(W().mutex);
  for (Context& context : W().contexts) context.lost = 0;
  for (void* stream : W().streams) static_cast<Stream*>(stream)->queue.clear();
}

bool IsMemory(uint64_t address) {
  Lock lock(W().mutex);
  auto after = W().blocks.upper_bound(address);
  return after != W().blocks.begin() && address <= std::prev(after)->first + std::prev(after)->second.first;
}

int AddWork(void* stream, std::function<int()> work) {
  Lock lock(W().mutex);
  return Enqueue(static_cast<cuda::StreamHandle>(stream), std::move(work));
}

void Wake() {
  Lock lock(W().mutex);
  Drain();
  W().changed.notify_all();
}

}  // namespace rondo::fake_cuda

using namespace rondo::fake_cuda;  // NOLINT: the functions below are this library
using namespace rondo::cuda;       // NOLINT
using FakeContext = rondo::fake_cuda::Context;
using FakeFunction = rondo::fake_cuda::Function;

extern "C" {

RONDO_FAKE_API Error cuInit(unsigned) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  return W().machine.init_error;
}
RONDO_FAKE_API Error cuDriverGetVersion(int* version) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (const Error error = Point("cuDriverGetVersion"); error != 0) return error;
  *version = W().machine.version;
  return 0;
}
RONDO_FAKE_API Error cuGetErrorString(Error, const char** text) {
  const rondo::fake_cuda::Working working;
  *text = "as the fake was asked";
  return 0;
}
RONDO_FAKE_API Error cuDeviceGetCount(int* count) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (const Error error = Point("cuDeviceGetCount"); error != 0) return error;
  *count = W().machine.devices;
  return 0;
}
RONDO_FAKE_API Error cuDeviceGet(DeviceId* device, int ordinal) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (const Error error = Point("cuDeviceGet"); error != 0) return error;
  *device = ordinal;
  return ordinal < W().machine.devices ? 0 : 101;
}
RONDO_FAKE_API Error cuDeviceGetAttribute(int* value, int attribute, DeviceId) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (const Error error = Point("cuDeviceGetAttribute"); error != 0) return error;
  const rondo::fake_cuda::Machine& machine = W().machine;
  *value = attribute == 75   ? machine.major
           : attribute == 76 ? machine.minor
           : attribute == 97 ? machine.block_shared
                             : 0;
  return 0;
}
RONDO_FAKE_API Error cuDeviceGetName(char* name, int length, DeviceId) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (const Error error = Point("cuDeviceGetName"); error != 0) return error;
  std::snprintf(name, static_cast<size_t>(length), "Fake GPU");
  return 0;
}
RONDO_FAKE_API Error cuDevicePrimaryCtxRetain(rondo::cuda::Context* context, DeviceId device) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (const Error error = Point("cuDevicePrimaryCtxRetain"); error != 0) return error;
  ++W().contexts[device].retained;
  *context = reinterpret_cast<rondo::cuda::Context>(&W().contexts[device]);
  return 0;
}
RONDO_FAKE_API Error cuDevicePrimaryCtxRelease_v2(DeviceId device) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  --W().contexts[device].retained;
  return 0;
}
RONDO_FAKE_API Error cuCtxPushCurrent_v2(rondo::cuda::Context context) {
  const rondo::fake_cuda::Working working;
  current.push_back(reinterpret_cast<FakeContext*>(context));
  return 0;
}
RONDO_FAKE_API Error cuCtxPopCurrent_v2(rondo::cuda::Context* context) {
  const rondo::fake_cuda::Working working;
  if (current.empty()) return kInvalidContext;
  *context = reinterpret_cast<rondo::cuda::Context>(current.back());
  current.pop_back();
  return 0;
}
RONDO_FAKE_API Error cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemGetInfo");
  *free_bytes = *total_bytes = W().machine.device_bytes;
  for (const auto& [address, block] : W().blocks) {
    if (block.second == current.back()) *free_bytes -= block.first;
  }
  return 0;
}
RONDO_FAKE_API Error cuMemAlloc_v2(Address* address, size_t bytes) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemAlloc");
  uint64_t used = 0;
  for (const auto& [at, block] : W().blocks) used += block.second == current.back() ? block.first : 0;
  if (bytes == 0) return kInvalidValue;
  if (bytes > W().machine.device_bytes - used) return kOutOfMemory;
  const size_t step = bytes >= 1 << 20 ? 2 << 20 : 256;  // where large blocks begin, as CUDA's do
  void* memory = std::aligned_alloc(step, (bytes + step - 1) / step * step);
  std::memset(memory, 0xa5, bytes);
  *address = reinterpret_cast<Address>(memory);
  W().blocks[*address] = {bytes, current.back()};
  return 0;
}
RONDO_FAKE_API Error cuMemFree_v2(Address address) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  Drain();
  if (W().blocks.erase(address) == 0) return kInvalidValue;
  std::free(Pointer<void>(address));
  return 0;
}
RONDO_FAKE_API Error cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemHostAlloc");
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  W().host_blocks[reinterpret_cast<uint64_t>(*memory)] = bytes;
  return 0;
}
RONDO_FAKE_API Error cuMemFreeHost(void* memory) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (W().host_blocks.erase(reinterpret_cast<uint64_t>(memory)) == 0) return kInvalidValue;
  std::free(memory);
  return 0;
}
RONDO_FAKE_API Error cuPointerGetAttributes(unsigned count, int* attributes, void** values, Address memory) {
  const rondo::fake_cuda::Working working;
  POINT("cuPointerGetAttributes");
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] != 2) return kInvalidValue;  // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
    const auto at = reinterpret_cast<const void*>(memory);
    *static_cast<unsigned*>(values[i]) = IsPageLocked(at) ? 1 : IsMemory(memory) ? 2 : 0;
  }
  return 0;
}
RONDO_FAKE_API Error cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, StreamHandle stream) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemcpyHtoDAsync");
  if (!IsOwn(to, bytes)) return kInvalidValue;
  CountCopy(from);
  if (IsPageLocked(from)) {
    return Enqueue(stream, [=] { return std::memcpy(Pointer<void>(to), from, bytes), 0; });
  }
  const auto* first = static_cast<const uint8_t*>(from);
  std::vector<uint8_t> now(first, first + bytes);
  return Enqueue(stream, [to, now = std::move(now)] {
    return std::memcpy(Pointer<void>(to), now.data(), now.size()), 0;
  });
}
RONDO_FAKE_API Error cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, StreamHandle stream) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemcpyDtoHAsync");
  if (!IsOwn(from, bytes)) return kInvalidValue;
  CountCopy(to);
  return Enqueue(stream, [=] { return std::memcpy(to, Pointer<void>(from), bytes), 0; });
}
RONDO_FAKE_API Error cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, StreamHandle stream) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemcpyDtoDAsync");
  if (!IsOwn(to, bytes) || !IsOwn(from, bytes)) return kInvalidValue;
  return Enqueue(stream, [=] { return std::memmove(Pointer<void>(to), Pointer<void>(from), bytes), 0; });
}
RONDO_FAKE_API Error cuMemsetD8Async(Address to, unsigned char byte, size_t bytes, StreamHandle stream) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemsetD8Async");
  if (!IsOwn(to, bytes)) return kInvalidValue;
  return Enqueue(stream, [=] { return std::memset(Pointer<void>(to), byte, bytes), 0; });
}
RONDO_FAKE_API Error cuModuleLoadData(ModuleHandle* module, const void* image) {
  const rondo::fake_cuda::Working working;
  POINT("cuModuleLoadData");
  const auto* text = static_cast<const char*>(image);
  constexpr const char* kBegins[] = {kImage,
                                     "\x7f"
                                     "ELF",
                                     ".version"};
  if (std::none_of(std::begin(kBegins), std::end(kBegins),
                   [&](const char* begin) { return std::strncmp(text, begin, std::strlen(begin)) == 0; })) {
    return kInvalidImage;
  }
  auto* made = new rondo::fake_cuda::Module;
  W().modules.insert(made);
  *module = reinterpret_cast<ModuleHandle>(made);
  return 0;
}
RONDO_FAKE_API Error cuModuleUnload(ModuleHandle module) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  Drain();
  if (W().modules.erase(module) == 0) return kInvalidHandle;
  delete reinterpret_cast<rondo::fake_cuda::Module*>(module);
  return 0;
}
RONDO_FAKE_API Error cuModuleGetFunction(rondo::cuda::Function* function, ModuleHandle module,
                                         const char* name) {
  const rondo::fake_cuda::Working working;
  POINT("cuModuleGetFunction");
  if (W().kernels.count(name) == 0) return kNotFound;
  FakeFunction& made = reinterpret_cast<rondo::fake_cuda::Module*>(module)->functions[name];
  made.name = name;
  *function = reinterpret_cast<rondo::cuda::Function>(&made);
  return 0;
}
RONDO_FAKE_API Error cuFuncGetAttribute(int* value, int attribute, rondo::cuda::Function) {
  const rondo::fake_cuda::Working working;
  POINT("cuFuncGetAttribute");
  const rondo::fake_cuda::Machine& machine = W().machine;
  *value = attribute == 0 ? machine.function_threads : attribute == 4 ? machine.function_registers : 0;
  return 0;
}
RONDO_FAKE_API Error cuFuncSetAttribute(rondo::cuda::Function, int, int) {
  const rondo::fake_cuda::Working working;
  POINT("cuFuncSetAttribute");
  return 0;
}
RONDO_FAKE_API Error cuStreamCreate(StreamHandle* stream, unsigned) {
  const rondo::fake_cuda::Working working;
  POINT("cuStreamCreate");
  auto* made = new rondo::fake_cuda::Stream;
  made->context = current.back();
  W().streams.insert(made);
  *stream = reinterpret_cast<StreamHandle>(made);
  return 0;
}
RONDO_FAKE_API Error cuStreamDestroy_v2(StreamHandle stream) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  Drain();
  if (W().streams.erase(stream) == 0) return kInvalidHandle;
  delete reinterpret_cast<rondo::fake_cuda::Stream*>(stream);
  return 0;
}
RONDO_FAKE_API Error cuStreamSynchronize(StreamHandle stream) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  const Error failed = ContextPoint("cuStreamSynchronize");
  rondo::fake_cuda::Stream* s = ToStream(stream);
  if (s == nullptr) return kInvalidHandle;
  if (s->capture != nullptr) return kUnsupportedInCapture;
  return Finish(failed, s, [s] { return s->queue.empty(); });
}
RONDO_FAKE_API Error cuStreamWaitEvent(StreamHandle stream, EventHandle event, unsigned) {
  const rondo::fake_cuda::Working working;
  POINT("cuStreamWaitEvent");
  rondo::fake_cuda::Stream* s = ToStream(stream);
  rondo::fake_cuda::Event* e = ToEvent(event);
  if (s == nullptr || e == nullptr) return kInvalidHandle;
  if (e->capture != nullptr && s->capture == nullptr) s->capture = e->capture;
  if (e->passing->recorded == 0 || s->capture != nullptr)
    return s->capture == e->capture || e->passing->recorded == 0 ? 0 : kCaptureIsolation;
  return Enqueue(stream, [passing = e->passing, recorded = e->passing->recorded] {
    return passing->passed >= recorded ? 0 : kNotYet;
  });
}
RONDO_FAKE_API Error cuEventCreate(EventHandle* event, unsigned) {
  const rondo::fake_cuda::Working working;
  POINT("cuEventCreate");
  auto* made = new rondo::fake_cuda::Event;
  W().events.insert(made);
  *event = reinterpret_cast<EventHandle>(made);
  return 0;
}
RONDO_FAKE_API Error cuEventDestroy_v2(EventHandle event) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  Drain();
  if (W().events.erase(event) == 0) return kInvalidHandle;
  delete reinterpret_cast<rondo::fake_cuda::Event*>(event);
  return 0;
}
RONDO_FAKE_API Error cuEventRecordWithFlags(EventHandle event, StreamHandle stream, unsigned external) {
  const rondo::fake_cuda::Working working;
  POINT("cuEventRecordWithFlags");
  rondo::fake_cuda::Event* e = ToEvent(event);
  rondo::fake_cuda::Stream* s = ToStream(stream);
  if (e == nullptr || s == nullptr) return kInvalidHandle;
  if (s->capture != nullptr && external == 0) {
    e->capture = s->capture;
    return 0;
  }
  e->capture = nullptr;
  const bool in_graph = s->capture != nullptr;
  const uint64_t recorded = in_graph ? e->passing->recorded : ++e->passing->recorded;
  return Enqueue(stream, [passing = e->passing, recorded, in_graph] {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    passing->milliseconds = std::chrono::duration<double, std::milli>(now).count();
    passing->passed = in_graph ? passing->passed + 1 : std::max(passing->passed, recorded);
    return 0;
  });
}
RONDO_FAKE_API Error cuEventSynchronize(EventHandle event) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  const Error failed = ContextPoint("cuEventSynchronize");
  if (ToEvent(event) == nullptr) return kInvalidHandle;
  return Finish(failed, nullptr,
                [passing = ToEvent(event)->passing] { return passing->passed >= passing->recorded; });
}
RONDO_FAKE_API Error cuEventElapsedTime(float* milliseconds, EventHandle from, EventHandle to) {
  const rondo::fake_cuda::Working working;
  POINT("cuEventElapsedTime");
  const auto &first = ToEvent(from)->passing, &last = ToEvent(to)->passing;
  if (first->passed == 0 || last->passed == 0) return kNotReady;
  *milliseconds = static_cast<float>(last->milliseconds - first->milliseconds);
  return 0;
}
RONDO_FAKE_API Error cuStreamBeginCapture_v2(StreamHandle stream, int) {
  const rondo::fake_cuda::Working working;
  POINT("cuStreamBeginCapture");
  rondo::fake_cuda::Stream* s = ToStream(stream);
  if (s == nullptr || s->capture != nullptr) return kInvalidHandle;
  s->capture = std::make_shared<Capture>();
  s->last = nullptr;
  s->origin = true;
  return 0;
}
RONDO_FAKE_API Error cuStreamEndCapture(StreamHandle stream, GraphHandle* graph) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  rondo::fake_cuda::Stream* s = ToStream(stream);
  if (s == nullptr || s->capture == nullptr || !s->origin) return kCaptureUnmatched;
  const std::shared_ptr<Capture> capture = s->capture;
  for (void* other : W().streams) {
    auto* o = static_cast<rondo::fake_cuda::Stream*>(other);
    if (o->capture == capture) o->capture = nullptr;
  }
  for (void* other : W().events) {
    auto* o = static_cast<rondo::fake_cuda::Event*>(other);
    if (o->capture == capture) o->capture = nullptr;
  }
  s->origin = false;
  if (const Error error = ContextPoint("cuStreamEndCapture"); error != 0) return error;
  auto* made = new rondo::fake_cuda::Graph{s->context, std::move(capture->nodes), {}};
  W().graphs.insert(made);
  *graph = reinterpret_cast<GraphHandle>(made);
  return 0;
}
RONDO_FAKE_API Error cuGraphInstantiateWithFlags(GraphExec* exec, GraphHandle graph, unsigned long long) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphInstantiate");
  auto* made = new rondo::fake_cuda::Graph(*reinterpret_cast<rondo::fake_cuda::Graph*>(graph));
  W().graphs.insert(made);
  *exec = reinterpret_cast<GraphExec>(made);
  return 0;
}
RONDO_FAKE_API Error cuGraphUpload(GraphExec, StreamHandle) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphUpload");
  return 0;
}
RONDO_FAKE_API Error cuGraphLaunch(GraphExec exec, StreamHandle stream) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphLaunch");
  auto* graph = reinterpret_cast<rondo::fake_cuda::Graph*>(exec);
  for (const std::shared_ptr<Node>& node : graph->nodes) {
    const auto changed = graph->changed.find(node.get());
    const Error error = Enqueue(stream, changed != graph->changed.end() ? changed->second : node->work);
    if (error != 0) return error;
  }
  return 0;
}
RONDO_FAKE_API Error cuStreamGetCaptureInfo_v3(StreamHandle stream, int* status, uint64_t*, GraphHandle*,
                                               const NodeHandle** nodes, const void**, size_t* count) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  rondo::fake_cuda::Stream* s = ToStream(stream);
  *status = s->capture != nullptr;
  *nodes = &s->last;
  *count = s->capture != nullptr && s->last != nullptr;
  return 0;
}
RONDO_FAKE_API Error cuGraphExecMemcpyNodeSetParams(GraphExec exec, NodeHandle node,
                                                    const CopyNodeParams* params, rondo::cuda::Context) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphExecMemcpyNodeSetParams");
  if (!IsOwn(params->to.device, params->width) || !IsOwn(params->from.device, params->width)) return 1;
  auto* graph = reinterpret_cast<rondo::fake_cuda::Graph*>(exec);
  graph->changed[node] = [p = *params] {
    return std::memmove(Pointer<void>(p.to.device), Pointer<void>(p.from.device), p.width), 0;
  };
  return 0;
}
RONDO_FAKE_API Error cuGraphExecDestroy(GraphExec exec) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (W().graphs.erase(exec) == 0) return kInvalidHandle;
  delete reinterpret_cast<rondo::fake_cuda::Graph*>(exec);
  return 0;
}
RONDO_FAKE_API Error cuGraphDestroy(GraphHandle graph) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (W().graphs.erase(graph) == 0) return kInvalidHandle;
  delete reinterpret_cast<rondo::fake_cuda::Graph*>(graph);
  return 0;
}
// The kernel with the values that `params` point to.
static Error Bound(rondo::cuda::Function function, void** params, Work* work) {
  const auto found = W().kernels.find(reinterpret_cast<FakeFunction*>(function)->name);
  if (found == W().kernels.end()) return kInvalidHandle;
  std::vector<uint64_t> values;
  for (size_t i = 0; i < found->second.params.size(); ++i) {
    values.push_back(0);
    std::memcpy(&values.back(), params[i], found->second.params[i]);
  }
  *work = [run = found->second.run, values] { return run(values); };
  return 0;
}
RONDO_FAKE_API Error cuGraphExecKernelNodeSetParams_v2(GraphExec exec, NodeHandle node,
                                                       const KernelNodeParams* params) {
  const rondo::fake_cuda::Working working;
  POINT("cuGraphExecKernelNodeSetParams");
  return Bound(params->function, params->params,
               &reinterpret_cast<rondo::fake_cuda::Graph*>(exec)->changed[node]);
}
RONDO_FAKE_API Error cuTensorMapEncodeTiled(rondo::cuda::EncodedMap* map, int, uint32_t rank, void* address,
                                            const uint64_t*, const uint64_t*, const uint32_t*,
                                            const uint32_t*, int, int, int, int) {
  const rondo::fake_cuda::Working working;
  POINT("cuTensorMapEncodeTiled");
  if (rank == 0 || rank > 5 || reinterpret_cast<uintptr_t>(address) % 16 != 0) return kInvalidValue;
  map->words[0] = reinterpret_cast<uintptr_t>(address);
  return 0;
}
RONDO_FAKE_API Error cuLaunchKernelEx(const LaunchConfig* config, rondo::cuda::Function function,
                                      void** params, void**) {
  const rondo::fake_cuda::Working working;
  POINT("cuLaunchKernelEx");
  if (config->grid[0] == 0 || config->block[0] == 0 || config->block[0] > 1024) return kInvalidValue;
  Work work;
  const Error error = Bound(function, params, &work);
  return error != 0 ? error : Enqueue(config->stream, std::move(work));
}

}  // extern "C"
