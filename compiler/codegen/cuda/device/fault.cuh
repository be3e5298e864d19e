// What a kernel reports of data that it refuses.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FAULT_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FAULT_CUH_

#include "compiler/codegen/cuda/device/types.cuh"

// An index of `value` where [0, extent) are allowed, unless `what` is another fault.
// The first fault of a run is kept.
DEV void fault(FaultRecord* record, u32 step, i64 value, i64 extent, u64 what = ::rondo::cuda::kIndexFault) {
  if (atomicCAS_system(&record->taken, 0ull, what) == 0ull) {
    record->step = step;
    record->value = (u64)value;
    record->extent = (u64)extent;
    __threadfence_system();
  }
}

// Keeps one of the indices that a thread finds out of range, and reports it at the end of the thread: an
// atomic operation between two reads would keep the second from starting before the first is complete.
struct IndexFaults {
  FaultRecord* record;
  u32 step;
  i64 value = 0, extent = 0;  // extent 0: none yet
  MEMBER IndexFaults(FaultRecord* record, u32 step) : record(record), step(step) {}
  MEMBER void take(i64 v, i64 allowed) {
    value = v;
    extent = allowed;
  }
  MEMBER ~IndexFaults() {
    if (extent != 0) fault(record, step, value, extent);
  }
};

// Assertion `number` of the kernel: x is finite. Where all elements of a tensor are not, most threads see
// that one has said so: a read is quicker than an atomic operation on the host's memory.
template <typename T>
DEV void assert_finite(T x, FaultRecord* record, u32 step, i64 number) {
  if (x - x == 0 || *(volatile unsigned long long*)&record->taken != 0) return;
  fault(record, step, number, x != x ? 0 : x > 0 ? 1 : -1, ::rondo::cuda::kAssertFault);
}

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_FAULT_CUH_
