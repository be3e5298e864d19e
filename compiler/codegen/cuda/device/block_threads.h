// The threads of a block.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_BLOCK_THREADS_H_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_BLOCK_THREADS_H_

#include "compiler/codegen/cuda/device/host_device.h"

namespace rondo::cuda {

// Of most launches; templates that want others say so.
enum : int { kBlockThreads = 256, kBlockWarps = kBlockThreads / 32 };

}  // namespace rondo::cuda

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_BLOCK_THREADS_H_
