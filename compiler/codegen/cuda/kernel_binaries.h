// The binaries of a plan's kernels, as data: what a launch of each is, besides its code.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/cuda/kernel_text.h"
#include "core/arena.h"
#include "core/plan.h"
#include "core/status.h"

namespace rondo {

// What every launch of each kernel has in common about the memory that its parameters are bound to.
std::vector<std::vector<cuda::ParamFacts>> FactsOf(const PlanData& plan);

// The binary of a kernel that a library computes by `algorithm`; kNone: its first.
Result<KernelBinary> LibraryBinary(const Kernel& kernel, uint32_t algorithm, Arena& arena);

// The binary of a function of `text`, without its code and digest. `asked`: how its matmuls were asked to be
// computed; `whole`: WholeText of the text.
KernelBinary LaunchOf(const KernelText& text, const KernelConfiguration& asked, const std::string& whole,
                      Arena& arena);

}  // namespace rondo
