#include "drivers/capi/rondo_cuda.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "drivers/capi/op_libraries.h"
#include "drivers/cuda/cuda_driver.h"

namespace {

void Destroy(rondo_driver* driver) {
  auto* handle = static_cast<rondo::HandleWithOps*>(driver);
  if (handle->driver != nullptr) rondo::DestroyCudaDriver(handle->driver);
  handle->~HandleWithOps();
  std::free(handle);
}

rondo::Status MakeDriver(const rondo_cuda_options& given, rondo::OpRegistry* ops, rondo::Driver** driver) {
  if (given.size < sizeof(size_t)) {
    return rondo::Status::Error(rondo::Code::kInvalidArgument,
                                "rondo_cuda_options: its size is not set; use sizeof(rondo_cuda_options)");
  }
  if ((given.start_thread == nullptr) != (given.join_thread == nullptr)) {
    return rondo::Status::Error(rondo::Code::kInvalidArgument,
                                "rondo_cuda_options: one function of a pair is NULL; give both or none");
  }
  RONDO_RETURN_IF_ERROR(
      rondo::LoadOpLibraries("rondo_cuda_options", given.op_libraries, given.num_op_libraries, ops));
  rondo::CudaOptions options;
  options.library_path = given.library_path;
  options.ops = ops;
  if (given.collectives != nullptr) {
    rondo::Result<rondo::CollectiveKernels> kernels = rondo::ParseCollectiveKernels(given.collectives);
    if (!kernels.ok()) return kernels.status().At("rondo_cuda_options");
    options.collectives = *kernels;
  }
  if (given.start_thread != nullptr) {
    options.thread_hooks = {given.start_thread, given.join_thread, given.thread_user};
  }
  RONDO_ASSIGN_OR_RETURN(*driver, rondo::CreateCudaDriver(options));
  return rondo::Status::Ok();
}

}  // namespace

extern "C" rondo_driver* rondo_cuda_driver_create(const char* library_path) {
  rondo_cuda_options options = {};
  options.size = sizeof(options);
  options.library_path = library_path;
  return rondo_cuda_driver_create_with(&options);
}

extern "C" rondo_driver* rondo_cuda_driver_create_with(const rondo_cuda_options* options) {
  rondo_cuda_options full = {};
  full.size = sizeof(full);
  if (options != nullptr) {
    std::memcpy(&full, options, options->size < sizeof(full) ? options->size : sizeof(full));
    if (options->size < sizeof(size_t)) full.size = 0;
  }
  void* block = std::malloc(sizeof(rondo::HandleWithOps));
  if (block == nullptr) return nullptr;
  auto* handle = new (block) rondo::HandleWithOps;
  handle->destroy = Destroy;
  handle->status = MakeDriver(full, &handle->ops, &handle->driver);
  return handle;
}
