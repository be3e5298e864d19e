// What maps and reductions are estimated to take, by the instructions of their threads: arithmetic over
// GpuTable. What memory takes for their bytes is not counted. Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/part_plan.h"

namespace rondo::cuda {

// Cycles of a map or reduction as `plan` computes it.
double ElementCycles(const PartPlan& plan);

}  // namespace rondo::cuda
