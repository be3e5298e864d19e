// Programmatic dependent launch (sm_90 and later; nothing before): a kernel lets the next one begin, and
// waits until all earlier ones are complete. Every thread of every kernel waits before it touches what
// another kernel may write.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_DEPENDENT_LAUNCH_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_DEPENDENT_LAUNCH_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

DEV void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
DEV void wait_for_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_DEPENDENT_LAUNCH_CUH_
