// Generates CUDA C++ text for kernels: each skeleton is a template, filled with a kernel's loops, accesses
// and tapes.
//
// The text is deterministic and begins with #include lines for the device headers (device_headers.h) that it
// needs. Every part of a kernel owns a range of blocks of one launch. All launches have kCudaBlock threads a
// block, except matmuls with TMA tiles, which have one warp more or less.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/codegen/cuda/cuda_target.h"
#include "compiler/codegen/cuda/kernel_configuration.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

struct KernelText {
  std::string text;             // includes and definitions, ending in one extern "C" __global__ function
  std::string entry;            // its name, after what the kernel does; kernels of one plan may share it
  uint32_t grid = 1;            // blocks
  uint32_t block = kCudaBlock;  // threads a block
  uint32_t shared = 0;          // bytes of dynamic shared memory a block
  std::vector<TensorMap> tensor_maps;
  bool waits = false;  // is launched before the kernels ahead of it end, and begins by waiting for them
  KernelConfiguration configuration;  // of its largest part with a choice; otherwise open
};

// Parameters of the function: one `char*` for each kernel parameter, then those of
// formats/machine_code/kernel_params.h. `params`: one for each kernel parameter. Errors: kUnsupported, naming
// the kernel, for a part that no template can compute.
Result<KernelText> WriteKernelText(const Kernel& kernel, const CudaTarget& target,
                                   Span<const cuda::ParamFacts> params);

}  // namespace rondo
