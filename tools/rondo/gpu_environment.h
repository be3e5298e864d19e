// What CUDA and NCCL read from the environment, as this program wants it. Whoever calls the program may have
// set other values: those stay.
#ifndef RONDO_TOOLS_RONDO_GPU_ENVIRONMENT_H_
#define RONDO_TOOLS_RONDO_GPU_ENVIRONMENT_H_

#include <cstdint>
#include <vector>

namespace rondo::tools {

// When the program begins: no multicast over NVLink (drivers/nccl asks for an answer).
void BeginGpuEnvironment();

// Before the cuda driver is made for a plan on these of its devices: what several on one GPU need
// (drivers/capi/rondo_cuda.h).
void AllowSharedGpus(const std::vector<uint32_t>& devices);

// Before the first session, with the NCCL that was opened (0: none): collectives in graphs pay nothing for
// calls beside them, of which there are none here. Later versions are told by the driver.
void TellNccl(int version);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_GPU_ENVIRONMENT_H_
