// The fake libcuda's calls for devices, memory, modules, streams and events.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/device_steps.h"
#include "tests/cuda/fake/fake_world.h"

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
  *value = attribute == 16   ? machine.processors
           : attribute == 75 ? machine.major
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
RONDO_FAKE_API Error cuDeviceCanAccessPeer(int* can, DeviceId, DeviceId) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (const Error error = Point("cuDeviceCanAccessPeer"); error != 0) return error;
  *can = W().machine.peers;
  return 0;
}
RONDO_FAKE_API Error cuCtxEnablePeerAccess(rondo::cuda::Context to, unsigned) {
  const rondo::fake_cuda::Working working;
  POINT("cuCtxEnablePeerAccess");
  return current.back()->peers.insert(to).second ? 0 : kPeerEnabled;
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
RONDO_FAKE_API Error cuCtxGetDevice(DeviceId* device) {  // for custom ops
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  if (current.empty()) return kInvalidContext;
  *device = static_cast<DeviceId>(current.back() - W().contexts);
  return 0;
}
RONDO_FAKE_API Error cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemGetInfo");
  uint64_t nodes = 0;
  for (void* handle : W().graphs) {
    const auto* graph = static_cast<const rondo::fake_cuda::Graph*>(handle);
    if (graph->instance) nodes += graph->nodes.size();
  }
  *free_bytes = *total_bytes = W().machine.device_bytes;
  *free_bytes -= rondo::InDeviceSteps(W().modules.size() * W().machine.module_bytes);
  *free_bytes -= rondo::InDeviceSteps(nodes * W().machine.node_bytes);
  for (const auto& [address, block] : W().blocks) {
    if (block.second == current.back()) *free_bytes -= block.first;
  }
  return 0;
}
RONDO_FAKE_API Error cuMemAlloc_v2(Address* address, size_t bytes) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemAlloc");
  DrainAll();
  uint64_t used = 0;
  for (const auto& [at, block] : W().blocks) used += block.second == current.back() ? block.first : 0;
  if (bytes == 0) return kInvalidValue;
  if (bytes > W().machine.device_bytes - used) return kOutOfMemory;
  const size_t step = bytes >= 1 << 20 ? 2 << 20 : 256;  // the alignment of large blocks, as in CUDA
  void* memory = std::aligned_alloc(step, (bytes + step - 1) / step * step);
  std::memset(memory, 0xa5, bytes);
  *address = reinterpret_cast<Address>(memory);
  W().blocks[*address] = {bytes, current.back()};
  return 0;
}
RONDO_FAKE_API Error cuMemFree_v2(Address address) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  DrainAll();
  if (W().blocks.erase(address) == 0) return kInvalidValue;
  std::free(Pointer<void>(address));
  return 0;
}
RONDO_FAKE_API Error cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemHostAlloc");
  DrainAll();
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  W().host_blocks[reinterpret_cast<uint64_t>(*memory)] = bytes;
  return 0;
}
RONDO_FAKE_API Error cuMemFreeHost(void* memory) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  DrainAll();
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
    return Enqueue(
        stream, [=] { return std::memcpy(Pointer<void>(to), from, bytes), 0; }, true);
  }
  const auto* first = static_cast<const uint8_t*>(from);
  std::vector<uint8_t> now(first, first + bytes);
  return Enqueue(
      stream,
      [to, now = std::move(now)] { return std::memcpy(Pointer<void>(to), now.data(), now.size()), 0; }, true);
}
RONDO_FAKE_API Error cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, StreamHandle stream) {
  const rondo::fake_cuda::Working working;
  POINT("cuMemcpyDtoHAsync");
  if (!IsOwn(from, bytes)) return kInvalidValue;
  CountCopy(to);
  rondo::fake_cuda::CountQueue(stream);
  return Enqueue(
      stream, [=] { return std::memcpy(to, Pointer<void>(from), bytes), 0; }, true);
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
  DrainAll();
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
  if (W().loader) {
    for (auto& [name, kernel] : W().loader(image))
      made->functions[name] = {name, std::make_shared<rondo::fake_cuda::LoadedKernel>(std::move(kernel))};
  }
  W().modules.insert(made);
  *module = reinterpret_cast<ModuleHandle>(made);
  return 0;
}
RONDO_FAKE_API Error cuModuleLoadDataEx(ModuleHandle* module, const void* image, unsigned count, int* options,
                                        void** values) {
  const Error error = cuModuleLoadData(module, image);
  constexpr int kErrorLog = 5;
  for (unsigned i = 0; i < count && error == kInvalidImage; ++i) {
    if (options[i] == kErrorLog) std::strcpy(static_cast<char*>(values[i]), "no image begins\nlike this");
  }
  return error;
}
RONDO_FAKE_API Error cuModuleUnload(ModuleHandle module) {
  const rondo::fake_cuda::Working working;
  Lock lock(W().mutex);
  DrainAll();
  if (W().modules.erase(module) == 0) return kInvalidHandle;
  delete reinterpret_cast<rondo::fake_cuda::Module*>(module);
  return 0;
}
RONDO_FAKE_API Error cuModuleGetFunction(rondo::cuda::Function* function, ModuleHandle module,
                                         const char* name) {
  const rondo::fake_cuda::Working working;
  POINT("cuModuleGetFunction");
  auto& functions = reinterpret_cast<rondo::fake_cuda::Module*>(module)->functions;
  if (functions.count(name) == 0 && W().kernels.count(name) == 0) return kNotFound;
  FakeFunction& made = functions[name];
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
  made->numbers = {W().queues_taken++};
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
RONDO_FAKE_API Error cuStreamWriteValue32_v2(StreamHandle stream, Address to, uint32_t value, unsigned) {
  const rondo::fake_cuda::Working working;
  POINT("cuStreamWriteValue32");
  if (!IsPageLocked(Pointer<void>(to)) || to % 4 != 0) return kInvalidValue;
  return Enqueue(stream, [=] { return __atomic_store_n(Pointer<uint32_t>(to), value, __ATOMIC_RELAXED), 0; });
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

}  // extern "C"
