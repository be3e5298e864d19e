// Environment variables of CUDA and NCCL that this program needs. Values set by the user stay.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo::tools {

// At program start: no multicast over NVLink (drivers/nccl requires a decision).
void BeginGpuEnvironment();

// Before the cuda driver is made: settings for plans whose devices share a GPU (drivers/capi/rondo_cuda.h).
void AllowSharedGpus(const std::vector<uint32_t>& devices);

// Before the first session, with NCCL's version (0: none): collectives in graphs need not support calls
// outside graphs, because there are none here. For later versions the driver sets this itself.
void TellNccl(int version);

}  // namespace rondo::tools
