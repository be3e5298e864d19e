#include "drivers/capi/rondo_host.h"

#include <cstdlib>
#include <new>

#include "core/driver_handle.h"
#include "drivers/host/host_driver.h"

namespace {

void Destroy(rondo_driver* handle) {
  if (handle->driver != nullptr) rondo::DestroyHostDriver(handle->driver);
  handle->~rondo_driver();
  std::free(handle);
}

}  // namespace

extern "C" rondo_driver* rondo_host_driver_create(uint32_t threads, uint32_t devices) {
  void* block = std::malloc(sizeof(rondo_driver));
  if (block == nullptr) return nullptr;
  auto* handle = new (block) rondo_driver;
  handle->destroy = Destroy;
  rondo::HostOptions options;
  options.threads = threads;
  options.devices = devices;
  rondo::Result<rondo::Driver*> driver = rondo::CreateHostDriver(options);
  if (driver.ok()) {
    handle->driver = *driver;
  } else {
    handle->status = driver.status();
  }
  return handle;
}
