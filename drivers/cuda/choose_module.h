// Which of a plan's code modules a GPU runs. Internal to drivers/cuda.
#pragma once

#include <cstdint>

#include "core/plan.h"

namespace rondo::cuda {

struct ModuleChoice {
  const CodeModule* module = nullptr;  // null: it can run none
  // Of each other module why it is not that one: "sm_80 is machine code for compute capabilities 8.0 to 8.9".
  // Cut where it is longer than that.
  char others[512] = "";
};

// The best module for a GPU of compute capability `capability` (10 * major + minor) whose blocks can have
// `shared` bytes of shared memory: machine code of its own before that of earlier ones, before PTX.
ModuleChoice ChooseModule(const PlanData& plan, int capability, uint32_t shared);

}  // namespace rondo::cuda
