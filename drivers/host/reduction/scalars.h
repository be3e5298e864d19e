// Row scalars: the values that a reduction keeps for a row. Scalar s has three arrays of kLanes 8-byte
// values: value, compared value (for arg reductions), sum.
#pragma once

#include "drivers/host/exec/exec.h"
#include "drivers/host/reduction/reduction_program.h"

namespace rondo::host::RONDO_ISA {

enum { kValue = 0, kCompared = 1, kSum = 2 };
static inline char* ScalarAt(char* scalars, int slot, int which) {
  return scalars + (static_cast<int64_t>(slot) * 3 + which) * kLanes * 8;
}
// For the scalars whose bit is set in `which`.
void StartScalars(const ReductionPart& part, uint32_t which, char* scalars, bool columns, int lanes);
void EndScalars(const ReductionPart& part, uint32_t which, char* scalars, bool columns, int lanes);
// Executes a reducing instruction of a tape.
void ReduceLanes(const Inst& inst, TapeFrame& frame, const void* in, int n);
void ReduceArgLanes(const Inst& inst, TapeFrame& frame, const void* in, int n);

void RunSoftmax(const ReductionPart& part, Worker& w, int64_t first, int64_t last);

}  // namespace rondo::host::RONDO_ISA
