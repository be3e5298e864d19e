// CompareBinaries: compares a module's machine code with what its kernels' contracts compile to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo {

struct BinaryComparison {
  uint32_t binaries = 0;              // of kernels and alternatives
  uint32_t codes = 0;                 // distinct ones that were compiled
  std::vector<std::string> failures;  // one sentence for each binary that differs
};

// Generates the text of every binary of `module` again, from the kernel's contract and the binary's `choice`,
// compiles it, and compares text, launch and bytes. Relies on nothing else that the plan says about its code.
// `library_path`: as for Nvrtc::Open. Errors: kUnsupported without libnvrtc, or if the module was compiled by
// another version of it.
Result<BinaryComparison> CompareBinaries(const PlanData& plan, const CodeModule& module,
                                         const std::string& library_path);

}  // namespace rondo
