// AddCudaModules: machine code for every kernel of a plan.
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
  KernelConfiguration configuration;  // asked for kernels that the profile does not know (CudaTarget)
  // Multiprocessors that a launch should fill (CudaTarget); 0: those of the largest GPU of the architecture.
  // `rondo check --binaries` writes texts for that one again, so a plan that ships leaves it.
  uint32_t processors = 0;
  KernelProfile profile;  // used if it is of the units' architecture
  // Of each kernel, the best other candidates (KernelCandidates), at most so many, are added to the plan as
  // alternatives, and then what it is computed by as well, under its name.
  int64_t alternatives = 0;
  bool library_alternatives = true;  // and algorithms of a library, above that number
};

// Adds one code module for `options.units.architecture` to the plan, with a code for each kernel that differs
// from the others. `report` receives one sentence, `use` (may be null) what became of the profile. Errors as
// WriteKernelText and CompileUnits give them.
Status AddCudaModules(EmittedPlan* emitted, const ModuleOptions& options, std::string* report,
                      ProfileUse* use = nullptr);

// The CUDA text of all kernels of a plan, one after another: to read and to compare.
Result<std::string> CudaText(const PlanData& plan, const std::string& architecture = "sm_90a");

}  // namespace rondo
