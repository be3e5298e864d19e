// Environment variables of CUDA and NCCL that this program wants. Values that the user has set stay.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo::tools {

// At program start: no multicast over NVLink (drivers/nccl requires a decision).
void BeginGpuEnvironment();

// Before the cuda driver is made: what plans need whose devices share a GPU (drivers/capi/rondo_cuda.h).
void AllowSharedGpus(const std::vector<uint32_t>& devices);

// Before the first session, with the version of NCCL (0: none): collectives in graphs need not pay for calls
// outside of graphs, of which there are none here. The driver tells later versions itself.
void TellNccl(int version);

}  // namespace rondo::tools
