// CompareImages: a module's machine code against what its kernels' contracts compile to.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_COMPARE_IMAGES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_COMPARE_IMAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"

namespace rondo {

struct ImageComparison {
  uint32_t images = 0;                // of kernels and alternatives
  uint32_t codes = 0;                 // different ones that were compiled
  std::vector<std::string> failures;  // one sentence an image that is not what it should be
};

// Writes the text of every image of `module` again, from the kernel's contract and the choice that the image
// states, compiles it, and compares text, launch and bytes. Nothing that the plan says of its code is taken
// for granted but the choice. `library_path`: as Nvrtc::Open takes it. Errors: kUnsupported without libnvrtc,
// or if the module was compiled by another version of it than is found here.
Result<ImageComparison> CompareImages(const PlanData& plan, const CodeModule& module,
                                      const std::string& library_path);

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_COMPARE_IMAGES_H_
