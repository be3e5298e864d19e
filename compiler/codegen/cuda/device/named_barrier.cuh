// Barriers of some of a block's threads, by number: 1 to 15; 0 is __syncthreads'.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_NAMED_BARRIER_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_NAMED_BARRIER_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// Waits until THREADS threads have come, of which others may only have arrived.
template <int THREADS>
DEV void named_sync(u32 barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}
template <int THREADS>
DEV void named_arrive(u32 barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(THREADS) : "memory");
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_NAMED_BARRIER_CUH_
