// CheckBinaries: compares a module's machine code with its plan before any of it is loaded.
#pragma once

#include "core/plan.h"
#include "core/status.h"
#include "formats/machine_code/function_needs.h"

namespace rondo {

// Of a plan that the verifier has passed:
//   every code is an ELF image (or, in a module of PTX, PTX) whose parts lie in bounds, of the module's
//   architecture;
//   the function of every binary is in its code, and takes the parameters that the driver passes: an address
//   for each of the kernel's, the tensor maps, where faults go, the step; its threads, registers, shared
//   memory and cluster fit the launch and the architecture's GPUs; every binary has the digest
//   (binary_digest.h) of what the plan holds.
// `alternatives`: those of the module as well. Errors: kCorrupt, naming module, kernel, value, limit and
// node; kOutOfMemory. Thread-safe.
Status CheckBinaries(const PlanData& plan, const CodeModule& module, bool alternatives);

// Whether a block of `threads` with `shared` bytes of dynamic shared memory fits the function's needs, where
// a block may have `most_shared`. Error: kCorrupt, with the value and the limit.
Status FitsBlock(const FunctionNeeds& needs, uint32_t threads, uint32_t shared, uint64_t most_shared);

}  // namespace rondo
