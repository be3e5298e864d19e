// What a kernel reports of data that it refuses.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FAULT_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FAULT_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// An index of `value` where [0, extent) are allowed, in the record of 4 words: taken, step, value, extent.
// The first fault of a run is kept.
DEV void fault(u64* record, u32 step, i64 value, i64 extent) {
  if (atomicCAS_system(record, 0ull, 1ull) == 0ull) {
    record[1] = step;
    record[2] = (u64)value;
    record[3] = (u64)extent;
    __threadfence_system();
  }
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FAULT_CUH_
