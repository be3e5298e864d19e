// Estimates the time of maps and reductions from the instructions of their threads: arithmetic over GpuTable,
// without the time of memory traffic. Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/part_plan.h"

namespace rondo::cuda {

// Cycles of a map or reduction computed as in `plan`.
double ElementCycles(const PartPlan& plan);

}  // namespace rondo::cuda
