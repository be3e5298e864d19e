// CUDA C++ text for kernels: each skeleton is a template that a kernel's loops, accesses and tapes fill.
//
// The text is deterministic and stands alone: it needs no header (NVRTC compiles it with none), only the
// prelude. Every part of a kernel owns a run of blocks of one launch. All launches have kCudaBlock threads a
// block.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_KERNEL_TEXT_H_
#define RONDO_COMPILER_CODEGEN_CUDA_KERNEL_TEXT_H_

#include <cstdint>
#include <string>

#include "core/kernel.h"
#include "core/status.h"

namespace rondo {

inline constexpr uint32_t kCudaBlock = 256;
inline constexpr uint32_t kCudaSharedBytes = 48 << 10;  // static shared memory that every launch may use

struct KernelText {
  std::string text;   // definitions, ending in one extern "C" __global__ function
  std::string entry;  // its name
  uint32_t grid = 1;  // blocks
};

// Parameters of the function: one `char*` a kernel parameter, then the fault record (`unsigned long long*`, 4
// words: taken, step, operand value, extent) and the step's number (`unsigned`). Errors: kUnsupported, naming
// the kernel, for a part that no template here can run.
Result<KernelText> WriteKernelText(const Kernel& kernel, uint32_t number);

// What every kernel's text builds on: loads and stores by dtype, scalar functions (core/scalar.h on a
// device), block and warp reductions, the record of a fault.
const char* CudaPrelude();

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_KERNEL_TEXT_H_
