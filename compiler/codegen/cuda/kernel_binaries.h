// The binaries of a plan's kernels as data: everything about a launch except its code.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/cuda/kernel_text.h"
#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// What all launches of each kernel guarantee about the memory bound to its parameters.
std::vector<std::vector<cuda::ParamFacts>> FactsOf(const PlanData& plan);

// The binary of a kernel that a library computes with `algorithm`; kNone: its first.
Result<KernelBinary> LibraryBinary(const Kernel& kernel, uint32_t algorithm, Arena& arena);

// The binary of a function of `text`, without its code and digest. `asked`: the requested configuration of
// its matmuls; `whole`: WholeText of the text.
KernelBinary LaunchOf(const KernelText& text, const KernelConfiguration& asked, const std::string& whole,
                      Arena& arena);

}  // namespace rondo
