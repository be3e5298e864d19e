#include "tools/python/src/gpus.h"

#include <dlfcn.h>

#include <mutex>

namespace rondo::python {
namespace {

constexpr int kDevices = 64;
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

using Context = void*;
using StreamHandle = void*;

}  // namespace

// The functions of libcuda that are used, with their exported names.
struct Gpus::Functions {
  int (*init)(unsigned) = nullptr;
  int (*device_get)(int*, int) = nullptr;
  int (*context_retain)(Context*, int) = nullptr;
  int (*context_push)(Context) = nullptr;
  int (*context_pop)(Context*) = nullptr;
  int (*stream_create)(StreamHandle*, unsigned) = nullptr;
  int (*stream_synchronize)(StreamHandle) = nullptr;
  int (*allocate)(uint64_t*, size_t) = nullptr;
  int (*free)(uint64_t) = nullptr;
  int (*error_name)(int, const char**) = nullptr;

  template <typename F>
  static bool Find(void* library, const char* name, F* function) {
    *function = reinterpret_cast<F>(dlsym(library, name));
    return *function != nullptr;
  }
  bool FindAll(void* library) {
    return Find(library, "cuInit", &init) && Find(library, "cuDeviceGet", &device_get) &&
           Find(library, "cuDevicePrimaryCtxRetain", &context_retain) &&
           Find(library, "cuCtxPushCurrent_v2", &context_push) &&
           Find(library, "cuCtxPopCurrent_v2", &context_pop) &&
           Find(library, "cuStreamCreate", &stream_create) &&
           Find(library, "cuStreamSynchronize", &stream_synchronize) &&
           Find(library, "cuMemAlloc_v2", &allocate) && Find(library, "cuMemFree_v2", &free) &&
           Find(library, "cuGetErrorName", &error_name);
  }
};

// Contexts and streams live as long as the process: frameworks share the contexts and may have noted the
// streams.
struct Gpus::Device {
  std::mutex mutex;
  Context context = nullptr;
  StreamHandle stream = nullptr;
};

Gpus::Gpus(std::unique_ptr<Functions> functions)
    : functions_(std::move(functions)), devices_(new Device[kDevices]) {}
Gpus::~Gpus() = default;

std::unique_ptr<Gpus> Gpus::Open(std::string* why) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    *why = dlerror();
    return nullptr;
  }
  auto functions = std::make_unique<Functions>();
  if (!functions->FindAll(library) || functions->init(0) != 0) {
    *why = "libcuda.so.1 does not work";
    return nullptr;
  }
  return std::unique_ptr<Gpus>(new Gpus(std::move(functions)));
}

std::string Gpus::ErrorText(const char* function, int result) const {
  const char* name = nullptr;
  if (functions_->error_name(result, &name) != 0 || name == nullptr) name = "an unknown error";
  return std::string(function) + ": " + name;
}

Gpus::Device* Gpus::DeviceOf(int device, std::string* error) {
  if (device < 0 || device >= kDevices) {
    *error = "there is no device " + std::to_string(device);
    return nullptr;
  }
  Device& d = devices_[device];
  const std::lock_guard<std::mutex> lock(d.mutex);
  if (d.stream != nullptr) return &d;
  int handle = 0;
  int result = functions_->device_get(&handle, device);
  if (result == 0 && d.context == nullptr) result = functions_->context_retain(&d.context, handle);
  if (result == 0) result = functions_->context_push(d.context);
  if (result == 0) {
    result = functions_->stream_create(&d.stream, kNonBlocking);
    Context popped = nullptr;
    functions_->context_pop(&popped);
  }
  if (result == 0) return &d;
  *error = ErrorText("a stream cannot be made", result);
  return nullptr;
}

uintptr_t Gpus::Stream(int device, std::string* error) {
  const Device* d = DeviceOf(device, error);
  return d == nullptr ? 0 : reinterpret_cast<uintptr_t>(d->stream);
}

std::string Gpus::Wait(int device) {
  std::string error;
  const Device* d = DeviceOf(device, &error);
  if (d == nullptr) return error;
  int result = functions_->context_push(d->context);
  if (result == 0) {
    result = functions_->stream_synchronize(d->stream);
    Context popped = nullptr;
    functions_->context_pop(&popped);
  }
  return result == 0 ? "" : ErrorText("cuStreamSynchronize", result);
}

uint64_t Gpus::Allocate(int device, uint64_t bytes) {
  std::string error;
  const Device* d = DeviceOf(device, &error);
  uint64_t address = 0;
  if (d == nullptr || functions_->context_push(d->context) != 0) return 0;
  if (functions_->allocate(&address, bytes == 0 ? 1 : bytes) != 0) address = 0;
  Context popped = nullptr;
  functions_->context_pop(&popped);
  return address;
}

void Gpus::Free(int device, uint64_t address) {
  std::string error;
  const Device* d = DeviceOf(device, &error);
  if (d == nullptr || functions_->context_push(d->context) != 0) return;
  functions_->free(address);
  Context popped = nullptr;
  functions_->context_pop(&popped);
}

}  // namespace rondo::python
