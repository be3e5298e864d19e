// CompareBinaries: a module's machine code against what its kernels' contracts compile to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo {

struct BinaryComparison {
  uint32_t binaries = 0;              // of kernels and alternatives
  uint32_t codes = 0;                 // different ones that were compiled
  std::vector<std::string> failures;  // one sentence a binary that is not what it should be
};

// Writes the text of every binary of `module` again, from the kernel's contract and the choice that the
// binary states, compiles it, and compares text, launch and bytes. Nothing that the plan says of its code is
// taken for granted but the choice. `library_path`: as Nvrtc::Open takes it. Errors: kUnsupported without
// libnvrtc, or if the module was compiled by another version of it than is found here.
Result<BinaryComparison> CompareBinaries(const PlanData& plan, const CodeModule& module,
                                         const std::string& library_path);

}  // namespace rondo
