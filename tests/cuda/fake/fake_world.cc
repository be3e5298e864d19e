#include "tests/cuda/fake/fake_world.h"

#include <cstdlib>
#include <cstring>

namespace rondo::fake_cuda {

World::World() {
  const char* text = std::getenv("RONDO_FAKE_CUDA");
  auto take = [text](const char* key, int* value) {
    const char* at = text == nullptr ? nullptr : std::strstr(text, key);
    if (at != nullptr) *value = std::atoi(at + std::strlen(key));
  };
  take("version=", &machine.version);
  take("devices=", &machine.devices);
  take("init=", &machine.init_error);
  int capability = 0;
  take("capability=", &capability);
  if (capability != 0) {
    machine.major = capability / 10;
    machine.minor = capability % 10;
    machine.block_shared = capability == 80 ? 163 << 10 : capability < 90 ? 99 << 10 : machine.block_shared;
  }
  for (int i = 0; i < 64; ++i) contexts[i].device = i;
}

World& W() {
  static World* world = new World;
  return *world;
}

thread_local std::vector<Context*> current;

Error Point(const char* name) {
  World& w = W();
  if (!w.armed || w.count.calls++ != w.fail) return 0;
  w.count.fired = true;
  w.count.failed = name;
  if (w.error >= 700 && w.error < 800) {  // errors of kernels
    for (Context& context : w.contexts) context.lost = w.error;
  }
  return w.error;
}

Error ContextPoint(const char* name) {
  if (current.empty()) return kInvalidContext;
  if (const Error error = Point(name); error != 0) return error;
  return current.back()->lost;
}

// Whether an earlier stream still has work in a queue that this stream also uses.
static bool IsBehindAnother(const Stream& stream) {
  const uint64_t queues = W().machine.queues;
  if (queues == 0) return false;
  for (void* handle : W().streams) {
    const auto& other = *static_cast<const Stream*>(handle);
    if (other.context != stream.context || other.queue.empty() || other.since >= stream.since) continue;
    for (uint64_t a : stream.numbers) {
      for (uint64_t b : other.numbers) {
        if (a % queues == b % queues) return true;
      }
    }
  }
  return false;
}

void Drain() {
  World& w = W();
  for (bool moved = true; moved;) {
    moved = false;
    for (void* handle : std::vector<void*>(w.streams.begin(), w.streams.end())) {
      auto* stream = static_cast<Stream*>(handle);
      while (!stream->queue.empty() && (stream->queue.front().copy || !IsBehindAnother(*stream))) {
        const Error error = stream->context->lost != 0 ? stream->context->lost : stream->queue.front().work();
        if (error == kNotYet) break;
        stream->queue.pop_front();
        moved = true;
        if (error == 0) continue;
        for (Context& other : w.contexts)
          other.lost = error;  // as in CUDA, the whole process loses its contexts
      }
    }
    if (moved) w.changed.notify_all();
  }
}

void DrainAll() {
  Drain();
  for (void* stream : W().streams) {
    if (!static_cast<Stream*>(stream)->queue.empty()) {
      ++W().stalls;
      return;
    }
  }
}

Stream* ToStream(cuda::StreamHandle handle) {
  return W().streams.count(handle) != 0 ? reinterpret_cast<Stream*>(handle) : nullptr;
}
Event* ToEvent(cuda::EventHandle handle) {
  return W().events.count(handle) != 0 ? reinterpret_cast<Event*>(handle) : nullptr;
}

Error Enqueue(cuda::StreamHandle handle, Work work, bool copy) {
  Stream* stream = ToStream(handle);
  if (stream == nullptr) return kInvalidHandle;
  if (stream->context != current.back()) return kInvalidContext;
  if (stream->capture != nullptr) {
    stream->capture->nodes.push_back(std::make_shared<Node>(Node{std::move(work)}));
    stream->capture->streams.insert(stream);
    stream->last = reinterpret_cast<cuda::NodeHandle>(stream->capture->nodes.back().get());
  } else {
    if (stream->queue.empty()) {
      stream->since = ++W().came;
      stream->numbers.resize(1);
    }
    stream->queue.push_back({std::move(work), copy});
    W().changed.notify_all();
  }
  return 0;
}

void CountQueue(cuda::StreamHandle handle) {
  const Stream* stream = ToStream(handle);
  W().queued += stream != nullptr && stream->capture == nullptr && !stream->queue.empty();
}

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

void SetMachine(const Machine& machine) {
  Lock lock(W().mutex);
  W().machine = machine;
}

Machine GetMachine() {
  Lock lock(W().mutex);
  return W().machine;
}

void SetLoader(Loader loader) {
  Lock lock(W().mutex);
  W().loader = std::move(loader);
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

uint64_t CountQueued() {
  Lock lock(W().mutex);
  return W().queued;
}

uint64_t CountStalls() {
  Lock lock(W().mutex);
  return W().stalls;
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

void TakeMemory() {
  Lock lock(W().mutex);
  DrainAll();
}

int CurrentDevice() { return current.back()->device; }

void Wake() {
  Lock lock(W().mutex);
  Drain();
  W().changed.notify_all();
}

}  // namespace rondo::fake_cuda
