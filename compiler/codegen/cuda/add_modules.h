// AddCudaModules: generates machine code for every kernel of a plan.
#pragma once

#include <string>

#include "compiler/codegen/cuda/compile_units.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/emitted_plan.h"
#include "compiler/codegen/kernel_profile.h"
#include "core/status.h"

namespace rondo {

struct ModuleOptions {
  UnitOptions units;
  KernelConfiguration configuration;  // requested for kernels that the profile does not know (CudaTarget)
  // Multiprocessors that a launch should fill (CudaTarget); 0: those of the architecture's largest GPU.
  // `rondo check --binaries` generates texts for that GPU, so keep 0 for plans that ship.
  uint32_t processors = 0;
  KernelProfile profile;  // used if it is of the units' architecture
  // For each kernel, at most this many of the best other candidates (KernelCandidates) are added to the plan
  // as alternatives, followed by the chosen one under its name.
  int64_t alternatives = 0;
  bool library_alternatives = true;  // adds algorithms of a library to that number
};

// Adds one code module for `options.units.architecture` to the plan, with one code for each distinct kernel.
// `report` gets one sentence, `use` (may be null) how the profile was used. Errors: those of WriteKernelText
// and CompileUnits.
Status AddCudaModules(EmittedPlan* emitted, const ModuleOptions& options, std::string* report,
                      ProfileUse* use = nullptr);

// The CUDA text of all kernels of a plan, one after another, for reading and comparison.
Result<std::string> CudaText(const PlanData& plan, const std::string& architecture = "sm_90a");

}  // namespace rondo
