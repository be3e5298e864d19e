// Chooses the code module of a plan that a GPU runs. Internal to drivers/cuda.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace rondo::cuda {

struct ModuleChoice {
  const CodeModule* module = nullptr;  // null: the GPU can run none
  // Why each other module was not chosen: "sm_80 is machine code for compute capabilities 8.0 to 8.9". Cut if
  // longer.
  char others[512] = "";
};

// The best module for a GPU of compute capability `capability` (10 * major + minor) with `shared` bytes of
// shared memory for a block: machine code for this GPU first, then for earlier ones, then PTX.
ModuleChoice ChooseModule(const PlanData& plan, int capability, uint32_t shared);

}  // namespace rondo::cuda
