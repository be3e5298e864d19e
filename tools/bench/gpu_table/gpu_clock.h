// The GPU of this machine, and its clock under load.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace rondo::bench {

struct GpuFacts {
  std::string name;
  std::string architecture;  // of the best target for this GPU: "sm_90a"
  uint32_t processors = 0;   // multiprocessors
};

// Facts of the first GPU. Errors: kUnsupported without a driver or if no target runs on the GPU.
Result<GpuFacts> ReadGpu();

// Cycles a microsecond while all multiprocessors multiply for some milliseconds, by the GPU's two clocks.
Result<double> CyclesAMicrosecond(const GpuFacts& gpu);

}  // namespace rondo::bench
