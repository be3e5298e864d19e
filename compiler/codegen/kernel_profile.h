// KernelProfile: the fastest configuration of each kernel, and the times of kernels and collectives, as
// measured on one machine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/kernel_configuration.h"
#include "core/kernel.h"
#include "formats/machine_code/binary_digest.h"
#include "formats/plan/measured_times.h"

namespace rondo {

struct KernelProfile {
  std::string architecture;                         // "sm_90a"; not used for others
  std::map<uint64_t, KernelConfiguration> choices;  // by KernelDigest
  // Measurements that estimates prefer, for any target; null: none.
  std::shared_ptr<const MeasuredTimes> times = nullptr;

  // The requested configuration for the kernel; all fields open if there is none.
  KernelConfiguration Of(const Kernel& kernel) const;
};

// How a plan used a profile's choices.
struct ProfileUse {
  uint32_t taken = 0;                // kernels computed as the profile says
  std::vector<std::string> unknown;  // a sentence for each choice that is not possible
  uint32_t unused = 0;               // choices for kernels that the plan does not have
};

}  // namespace rondo
