// KernelProfile: how each kernel is best computed, and how long kernels and collectives take, as measured on
// one machine.
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
  std::string architecture;                         // "sm_90a": of no use for others
  std::map<uint64_t, KernelConfiguration> choices;  // by KernelDigest
  // What estimates take for known; null: nothing. Of whatever target the plan is compiled for.
  std::shared_ptr<const MeasuredTimes> times = nullptr;

  // What is asked for the kernel; everything left open if nothing is.
  KernelConfiguration Of(const Kernel& kernel) const;
};

// What became of a profile's choices in one plan.
struct ProfileUse {
  uint32_t taken = 0;                // kernels computed as the profile says
  std::vector<std::string> unknown;  // a sentence for each that cannot be
  uint32_t unused = 0;               // choices of kernels that the plan does not have
};

}  // namespace rondo
