// KernelProbe: the intermediate values of a kernel. The registers of its tapes are not in memory. Copies of
// the kernel that store one more register show them: they are launched on the host driver over the memory
// that a step of a run found.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// The bytes of each buffer that a step binds, before the step.
using BoundMemory = std::map<uint32_t, std::vector<uint8_t>>;

// Launches the kernel of `step`, which is a launch, over a copy of `memory`, and returns the buffers
// afterwards. The bindings are those of the last round of its loop.
Result<BoundMemory> LaunchOnHost(const PlanData& plan, uint32_t program, uint32_t step, BoundMemory memory);

// Calls `see` with each register of the kernel's tapes except constants and loop counters. The tensor holds
// its value at every point at which its tape runs, in loop order. Stops when `see` returns false.
Status ForEachRegister(const PlanData& plan, uint32_t program, uint32_t step, const BoundMemory& memory,
                       const std::function<bool(const Tensor&)>& see);

}  // namespace rondo::tools
