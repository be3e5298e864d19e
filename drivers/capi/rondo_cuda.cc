#include "drivers/capi/rondo_cuda.h"

#include <cstdlib>
#include <new>

#include "core/driver_handle.h"
#include "drivers/cuda/cuda_driver.h"

namespace {

void Destroy(rondo_driver* handle) {
  if (handle->driver != nullptr) rondo::DestroyCudaDriver(handle->driver);
  handle->~rondo_driver();
  std::free(handle);
}

}  // namespace

extern "C" rondo_driver* rondo_cuda_driver_create(const char* library_path) {
  void* block = std::malloc(sizeof(rondo_driver));
  if (block == nullptr) return nullptr;
  auto* handle = new (block) rondo_driver;
  handle->destroy = Destroy;
  rondo::CudaOptions options;
  options.library_path = library_path;
  rondo::Result<rondo::Driver*> driver = rondo::CreateCudaDriver(options);
  handle->status = driver.status();
  if (driver.ok()) handle->driver = *driver;
  return handle;
}
