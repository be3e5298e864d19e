// AddCudaModules: machine code for every kernel of a plan.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_ADD_MODULES_H_
#define RONDO_COMPILER_CODEGEN_CUDA_ADD_MODULES_H_

#include <string>

#include "compiler/codegen/cuda/compile_units.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/emitted_plan.h"
#include "core/status.h"

namespace rondo {

// Adds one code module for `units.architecture` to the plan, with a code for each kernel that differs from
// the others. `report` receives one sentence; products are computed as `product` says where they can be
// (CudaTarget). Errors as WriteKernelText and CompileUnits give them.
Status AddCudaModules(EmittedPlan* emitted, const UnitOptions& units, std::string* report,
                      const ProductChoice& product = {});

// The CUDA text of all kernels of a plan, one after another, prelude included: to read and to compare.
Result<std::string> CudaText(const PlanData& plan, const std::string& architecture = "sm_90a");

}  // namespace rondo

#endif  // RONDO_COMPILER_CODEGEN_CUDA_ADD_MODULES_H_
