#include "drivers/capi/rondo_host.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "drivers/capi/joined.h"
#include "drivers/capi/op_libraries.h"
#include "drivers/host/host_driver.h"

namespace {

struct HostHandle : rondo::HandleWithOps {
  std::unique_ptr<rondo::Processes> processes;
};

void Destroy(rondo_driver* driver) {
  auto* handle = static_cast<HostHandle*>(driver);
  if (handle->driver != nullptr) rondo::DestroyHostDriver(handle->driver);
  handle->~HostHandle();
  std::free(handle);
}

rondo::Status MakeDriver(const rondo_host_options& given, HostHandle* handle) {
  if (given.size < sizeof(size_t)) {
    return rondo::Status::Error(rondo::Code::kInvalidArgument,
                                "rondo_host_options: its size is not set; use sizeof(rondo_host_options)");
  }
  if ((given.allocate == nullptr) != (given.deallocate == nullptr) ||
      (given.start_thread == nullptr) != (given.join_thread == nullptr)) {
    return rondo::Status::Error(rondo::Code::kInvalidArgument,
                                "rondo_host_options: one function of a pair is NULL; give both or none");
  }
  RONDO_RETURN_IF_ERROR(
      rondo::LoadOpLibraries("rondo_host_options", given.op_libraries, given.num_op_libraries, &handle->ops));
  RONDO_RETURN_IF_ERROR(rondo::Join(given.processes, &handle->processes));
  rondo::HostOptions options;
  options.ops = &handle->ops;
  options.processes = handle->processes.get();
  if (given.threads != 0) options.threads = given.threads;
  if (given.devices != 0) options.devices = given.devices;
  if (given.allocate != nullptr) {
    options.allocator = {given.allocate, given.deallocate, given.allocator_user};
  }
  if (given.start_thread != nullptr) {
    options.thread_hooks = {given.start_thread, given.join_thread, given.thread_user};
  }
  RONDO_ASSIGN_OR_RETURN(handle->driver, rondo::CreateHostDriver(options));
  return rondo::Status::Ok();
}

rondo_driver* MakeHandle(const rondo_host_options& options) {
  void* block = std::malloc(sizeof(HostHandle));
  if (block == nullptr) return nullptr;
  auto* handle = new (block) HostHandle;
  handle->destroy = Destroy;
  handle->status = MakeDriver(options, handle);
  return handle;
}

}  // namespace

extern "C" rondo_driver* rondo_host_driver_create(uint32_t threads, uint32_t devices) {
  rondo_host_options options = {};
  options.size = sizeof(options);
  options.threads = threads;
  options.devices = devices;
  return MakeHandle(options);
}

extern "C" rondo_driver* rondo_host_driver_create_with(const rondo_host_options* options) {
  rondo_host_options full = {};
  full.size = sizeof(full);
  if (options != nullptr) {
    std::memcpy(&full, options, options->size < sizeof(full) ? options->size : sizeof(full));
    if (options->size < sizeof(size_t)) full.size = 0;
  }
  return MakeHandle(full);
}
