// TuningProfile: what `rondo tune` measured, as a file that `rondo compile --profile` reads.
//
// JSON, in this form (numbers of kernels in the order of their keys, so that equal profiles are equal files):
//
//   {
//     "rondo_profile": 1,
//     "gpu": "NVIDIA H200", "architecture": "sm_90a", "driver": 13000,
//     "kernels": [
//       { "key": "00f3a1…",                      16 hexadecimal digits: KernelDigest of the kernel
//         "kernel": "k3_contraction", "source": "MatMul \"layers.0.q\"",   for people
//         "choice": "mma 64x64x64 2x2x2 cluster 2",                        what compile takes
//         "microseconds": { "mma 64x64x64 2x2x2 cluster 2": 671.25, ... } } of a run with each of them
//     ]
//   }
#ifndef RONDO_TOOLS_RONDO_PROFILE_H_
#define RONDO_TOOLS_RONDO_PROFILE_H_

#include <cstdint>
#include <map>
#include <string>

#include "compiler/codegen/kernel_profile.h"
#include "core/status.h"

namespace rondo::tools {

struct ProfiledKernel {
  std::string kernel, source, choice;
  std::map<std::string, double> microseconds;  // of a run of the plan that was measured, by choice
};

struct TuningProfile {
  std::string gpu, architecture;
  uint32_t driver = 0;                         // version of the GPU's driver
  std::map<uint64_t, ProfiledKernel> kernels;  // by key
};

// Errors: kIo, or kCorrupt, naming the file and what in it is wrong.
Result<TuningProfile> ReadProfile(const std::string& path);
Result<TuningProfile> ParseProfile(const std::string& text, const std::string& name);

std::string ProfileJson(const TuningProfile& profile);
Status WriteProfile(const TuningProfile& profile, const std::string& path);

// What the compiler needs of it.
KernelProfile ChoicesOf(const TuningProfile& profile);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_PROFILE_H_
