// The GPU of this machine, and its clock under load.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace rondo::bench {

struct GpuFacts {
  std::string name;
  std::string architecture;  // the best target for it: "sm_90a"
  uint32_t processors = 0;   // multiprocessors
};

// Of the first GPU. Errors: kUnsupported without a driver or where no target runs on it.
Result<GpuFacts> ReadGpu();

// Cycles a microsecond while all multiprocessors multiply: both clocks of the GPU, over some milliseconds.
Result<double> CyclesAMicrosecond(const GpuFacts& gpu);

}  // namespace rondo::bench
