// MakeCubin: ELF images of machine code, made by hand, and what makes a module of them whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/arena.h"
#include "core/plan.h"
#include "formats/machine_code/function_needs.h"

namespace rondo {

// A function whose code is zeros.
struct CubinFunction {
  std::string entry;
  FunctionNeeds needs;
};

// What CUDA 13 writes for `architecture` (90), or, with `cuda12`, CUDA 12, as far as formats/machine_code
// looks at it.
std::vector<uint8_t> MakeCubin(int architecture, const std::vector<CubinFunction>& functions,
                               bool cuda12 = false);

// What the driver passes to a kernel with so many parameters and tensor maps.
std::vector<uint32_t> PassedParams(uint32_t addresses, size_t maps = 0);

// Gives every image of the plan its digest. What it makes lies in `arena`.
void SealBinaries(PlanData* plan, Arena& arena);

}  // namespace rondo
