// MakeCubin: ELF images of machine code, made by hand, and the other parts of a module.
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

// Makes the image that CUDA 13, or with `cuda12` CUDA 12, writes for `architecture` (90), with the parts that
// formats/machine_code reads.
std::vector<uint8_t> MakeCubin(int architecture, const std::vector<CubinFunction>& functions,
                               bool cuda12 = false);

// The parameters that the driver passes to a kernel with so many addresses and tensor maps.
std::vector<uint32_t> PassedParams(uint32_t addresses, size_t maps = 0);

// Gives every image of the plan its digest. New lists lie in `arena`.
void SealBinaries(PlanData* plan, Arena& arena);

}  // namespace rondo
