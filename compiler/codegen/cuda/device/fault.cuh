// What a kernel reports of data that it refuses.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FAULT_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FAULT_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// An index of `value` where [0, extent) are allowed.
// The first fault of a run is kept.
DEV void fault(FaultRecord* record, u32 step, i64 value, i64 extent) {
  if (atomicCAS_system(&record->taken, 0ull, 1ull) == 0ull) {
    record->step = step;
    record->value = (u64)value;
    record->extent = (u64)extent;
    __threadfence_system();
  }
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FAULT_CUH_
