#include "drivers/cuda/cuda_api.h"

#include <algorithm>
#include <iterator>

#include "drivers/cuda/cuda_constants.h"
#include "drivers/library/shared_library.h"

namespace rondo::cuda {
namespace {

constexpr int kLeastVersion = 12000;  // CUDA 12.0: the first with every function used here

// cuda.h's macros map to these names with version suffixes.
constexpr Symbol kSymbols[] = {
    RONDO_SYMBOL(init, "cuInit"),
    RONDO_SYMBOL(driver_version, "cuDriverGetVersion"),
    RONDO_SYMBOL(error_string, "cuGetErrorString"),
    RONDO_SYMBOL(device_count, "cuDeviceGetCount"),
    RONDO_SYMBOL(device_get, "cuDeviceGet"),
    RONDO_SYMBOL(device_attribute, "cuDeviceGetAttribute"),
    RONDO_SYMBOL(device_name, "cuDeviceGetName"),
    RONDO_SYMBOL(can_access_peer, "cuDeviceCanAccessPeer"),
    RONDO_SYMBOL(enable_peer, "cuCtxEnablePeerAccess"),
    RONDO_SYMBOL(context_retain, "cuDevicePrimaryCtxRetain"),
    RONDO_SYMBOL(context_release, "cuDevicePrimaryCtxRelease_v2"),
    RONDO_SYMBOL(context_push, "cuCtxPushCurrent_v2"),
    RONDO_SYMBOL(context_pop, "cuCtxPopCurrent_v2"),
    RONDO_SYMBOL(memory_info, "cuMemGetInfo_v2"),
    RONDO_SYMBOL(allocate, "cuMemAlloc_v2"),
    RONDO_SYMBOL(release, "cuMemFree_v2"),
    RONDO_SYMBOL(host_allocate, "cuMemHostAlloc"),
    RONDO_SYMBOL(host_release, "cuMemFreeHost"),
    RONDO_SYMBOL(pointer_attributes, "cuPointerGetAttributes"),
    RONDO_SYMBOL(copy_in, "cuMemcpyHtoDAsync_v2"),
    RONDO_SYMBOL(copy_out, "cuMemcpyDtoHAsync_v2"),
    RONDO_SYMBOL(copy, "cuMemcpyDtoDAsync_v2"),
    RONDO_SYMBOL(fill, "cuMemsetD8Async"),
    RONDO_SYMBOL(module_load, "cuModuleLoadData"),
    RONDO_SYMBOL(module_load_logged, "cuModuleLoadDataEx"),
    RONDO_SYMBOL(module_unload, "cuModuleUnload"),
    RONDO_SYMBOL(module_function, "cuModuleGetFunction"),
    RONDO_SYMBOL(function_attribute, "cuFuncSetAttribute"),
    RONDO_SYMBOL(function_info, "cuFuncGetAttribute"),
    RONDO_SYMBOL(stream_create, "cuStreamCreate"),
    RONDO_SYMBOL(stream_destroy, "cuStreamDestroy_v2"),
    RONDO_SYMBOL(stream_synchronize, "cuStreamSynchronize"),
    RONDO_SYMBOL(stream_wait, "cuStreamWaitEvent"),
    RONDO_SYMBOL(write_value, "cuStreamWriteValue32_v2"),
    RONDO_SYMBOL(event_create, "cuEventCreate"),
    RONDO_SYMBOL(event_destroy, "cuEventDestroy_v2"),
    RONDO_SYMBOL(event_record, "cuEventRecordWithFlags"),
    RONDO_SYMBOL(event_synchronize, "cuEventSynchronize"),
    RONDO_SYMBOL(event_elapsed, "cuEventElapsedTime"),
    RONDO_SYMBOL(capture_begin, "cuStreamBeginCapture_v2"),
    RONDO_SYMBOL(capture_end, "cuStreamEndCapture"),
    RONDO_SYMBOL(graph_instantiate, "cuGraphInstantiateWithFlags"),
    RONDO_SYMBOL(graph_upload, "cuGraphUpload"),
    RONDO_SYMBOL(graph_launch, "cuGraphLaunch"),
    RONDO_SYMBOL(graph_exec_destroy, "cuGraphExecDestroy"),
    RONDO_SYMBOL(graph_destroy, "cuGraphDestroy"),
    RONDO_SYMBOL(launch, "cuLaunchKernelEx"),
    RONDO_SYMBOL(encode_map, "cuTensorMapEncodeTiled"),
    RONDO_SYMBOL(graph_kernel_params, "cuGraphExecKernelNodeSetParams_v2"),
    RONDO_SYMBOL(graph_copy_params, "cuGraphExecMemcpyNodeSetParams"),
    RONDO_OPTIONAL_SYMBOL(capture_info, "cuStreamGetCaptureInfo_v3"),
};

constexpr const char* kSonames[] = {"libcuda.so.1"};
constexpr SharedLibrary kLibrary = {"the NVIDIA driver", kSonames, kSymbols, "CUDA 12.0"};

Status Open(Api* api) {
  RONDO_RETURN_IF_ERROR(OpenLibrary(kLibrary, nullptr, api));
  int version = 0;
  api->driver_version(&version);
  if (version < kLeastVersion) {
    return Status::Error(Code::kUnsupported, "the NVIDIA driver supports CUDA %d.%d; %d.%d is needed",
                         version / 1000, version % 1000 / 10, kLeastVersion / 1000,
                         kLeastVersion % 1000 / 10);
  }
  return ToStatus(*api, api->init(0), "cuInit");
}

}  // namespace

Result<const Api*> OpenApi() {
  static OpenedOnce<Api> opened;
  return opened.Get([](Api* api) { return Open(api); });
}

bool IsFinal(Error error) {
  constexpr Error kFinal[] = {
      kEccUncorrectable, kContained,          kIllegalAddress,     kLaunchTimeout,       kContextIsDestroyed,
      kAssert,           kHardwareStackError, kIllegalInstruction, kMisalignedAddress,   kInvalidAddressSpace,
      kInvalidPc,        kLaunchFailed,       kTensorMemoryLeak,   kMpsClientTerminated, kExternalDevice};
  return std::find(std::begin(kFinal), std::end(kFinal), error) != std::end(kFinal);
}

Status ToStatus(const Api& api, Error error, const char* call) {
  if (error == 0) return Status::Ok();
  const char* text = nullptr;
  api.error_string(error, &text);
  return Status::Error(error == kOutOfMemoryError ? Code::kOutOfMemory : Code::kInternal, "%s: %s (%d)", call,
                       text != nullptr ? text : "unknown error", error);
}

}  // namespace rondo::cuda
