// KernelProfile: how each kernel is best computed, as measured on one architecture.
#ifndef RONDO_COMPILER_CODEGEN_KERNEL_PROFILE_H_
#define RONDO_COMPILER_CODEGEN_KERNEL_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/kernel_configuration.h"
#include "core/kernel.h"

namespace rondo {

// What a profile knows a kernel by: xxh3-64 of all that it computes, reads and writes. Names and a library's
// scratch are left out, and so is what is known of the memory it will be bound to: the same kernel of another
// model, or on its way to a plan, has the same digest.
uint64_t KernelDigest(const Kernel& kernel);

struct KernelProfile {
  std::string architecture;                         // "sm_90a": of no use for others
  std::map<uint64_t, KernelConfiguration> choices;  // by KernelDigest

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

#endif  // RONDO_COMPILER_CODEGEN_KERNEL_PROFILE_H_
