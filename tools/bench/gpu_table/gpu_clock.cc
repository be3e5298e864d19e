#include "tools/bench/gpu_table/gpu_clock.h"

#include <vector>

#include "compiler/codegen/cuda/nvrtc.h"
#include "drivers/cuda/cuda_api.h"
#include "formats/machine_code/architecture.h"

namespace rondo::bench {

namespace {

using cuda::Api;
using cuda::ToStatus;

constexpr int kProcessors = 16, kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_...

// All threads multiply. The first one reads both clocks before and after.
constexpr const char* kText = R"cuda(
extern "C" __global__ void __launch_bounds__(1024) clocks(unsigned long long* out, float x) {
  unsigned long long time = 0, cycles = 0;
  float sum[4] = {x, x + 1, x + 2, x + 3};
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  cycles = clock64();
  for (int i = 0; i < 1 << 18; ++i) {
    for (int j = 0; j < 4; ++j) sum[j] = __fmaf_rn(sum[j], x, 0.5f);
  }
  const unsigned long long end = clock64();
  unsigned long long last = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(last));
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    out[0] = end - cycles;
    out[1] = last - time;
  }
  if (sum[0] + sum[1] + sum[2] + sum[3] == 0.125f) out[2] = 1;
}
)cuda";

// Releases what a call holds, on success and on errors.
struct Loaded {
  const Api* api = nullptr;
  cuda::ModuleHandle module = nullptr;
  cuda::Address out = 0;
  bool pushed = false, retained = false;
  ~Loaded() {
    if (out != 0) api->release(out);
    if (module != nullptr) api->module_unload(module);
    cuda::Context context = nullptr;
    if (pushed) api->context_pop(&context);
    if (retained) api->context_release(0);
  }
};

}  // namespace

Result<GpuFacts> ReadGpu() {
  RONDO_ASSIGN_OR_RETURN(const Api* api, cuda::OpenApi());
  GpuFacts gpu;
  char name[128] = "";
  int processors = 0, major = 0, minor = 0;
  RONDO_RETURN_IF_ERROR(ToStatus(*api, api->device_name(name, sizeof(name), 0), "cuDeviceGetName"));
  const struct {
    int* value;
    int attribute;
  } kRead[] = {{&processors, kProcessors}, {&major, kMajor}, {&minor, kMinor}};
  for (const auto& [value, attribute] : kRead)
    RONDO_RETURN_IF_ERROR(ToStatus(*api, api->device_attribute(value, attribute, 0), "cuDeviceGetAttribute"));
  const GpuTarget* target = TargetFor(10 * major + minor);
  if (target == nullptr)
    return Status::Error(Code::kUnsupported, "%s has compute capability %d.%d, for which there is no target",
                         name, major, minor);
  gpu.name = name;
  gpu.architecture = target->architecture;
  gpu.processors = static_cast<uint32_t>(processors);
  return gpu;
}

Result<double> CyclesAMicrosecond(const GpuFacts& gpu) {
  RONDO_ASSIGN_OR_RETURN(const std::vector<uint8_t> code, CompileCuda(kText, gpu.architecture, ""));
  RONDO_ASSIGN_OR_RETURN(const Api* api, cuda::OpenApi());
  Loaded loaded;
  loaded.api = api;
  cuda::Context context = nullptr;
  RONDO_RETURN_IF_ERROR(ToStatus(*api, api->context_retain(&context, 0), "cuDevicePrimaryCtxRetain"));
  loaded.retained = true;
  RONDO_RETURN_IF_ERROR(ToStatus(*api, api->context_push(context), "cuCtxPushCurrent"));
  loaded.pushed = true;
  RONDO_RETURN_IF_ERROR(ToStatus(*api, api->module_load(&loaded.module, code.data()), "cuModuleLoadData"));
  cuda::Function function = nullptr;
  RONDO_RETURN_IF_ERROR(
      ToStatus(*api, api->module_function(&function, loaded.module, "clocks"), "cuModuleGetFunction"));
  uint64_t read[3] = {};
  RONDO_RETURN_IF_ERROR(ToStatus(*api, api->allocate(&loaded.out, sizeof(read)), "cuMemAlloc"));
  float x = 0.25f;
  void* params[] = {&loaded.out, &x};
  cuda::LaunchConfig config;
  config.grid[0] = gpu.processors;
  config.block[0] = 1024;
  for (int i = 0; i < 3; ++i)  // the first launches bring the clock up
    RONDO_RETURN_IF_ERROR(
        ToStatus(*api, api->launch(&config, function, params, nullptr), "cuLaunchKernelEx"));
  RONDO_RETURN_IF_ERROR(
      ToStatus(*api, api->copy_out(read, loaded.out, sizeof(read), nullptr), "cuMemcpyDtoHAsync"));
  RONDO_RETURN_IF_ERROR(ToStatus(*api, api->stream_synchronize(nullptr), "cuStreamSynchronize"));
  if (read[1] == 0) return Status::Error(Code::kInternal, "the GPU's timer stood still");
  return static_cast<double>(read[0]) * 1000 / static_cast<double>(read[1]);
}

}  // namespace rondo::bench
