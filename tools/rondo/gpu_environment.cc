#include "tools/rondo/gpu_environment.h"

#include <algorithm>
#include <cstdlib>

#include "drivers/nccl/nccl_api.h"

namespace rondo::tools {
namespace {

constexpr int kKeep = 0;  // for setenv: existing values stay

}  // namespace

void BeginGpuEnvironment() { setenv("NCCL_NVLS_ENABLE", "0", kKeep); }

void AllowSharedGpus(const std::vector<uint32_t>& devices) {
  std::vector<uint32_t> sorted = devices;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return;
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", kKeep);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", kKeep);
}

void TellNccl(int version) {
  if (version != 0 && version < nccl::Version(2, 29)) setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", kKeep);
}

}  // namespace rondo::tools
