// KernelProbe: what a kernel computes on the way. The registers of its tapes are in no memory; copies of the
// kernel that store one register more, launched on the host driver over memory as a step of a run found it,
// show them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// The bytes of each buffer that a step binds, before it.
using BoundMemory = std::map<uint32_t, std::vector<uint8_t>>;

// Launches the kernel of `step` over a copy of `memory`, bindings being those of the last round of its loop:
// what the buffers hold then. `step` is a launch.
Result<BoundMemory> LaunchOnHost(const PlanData& plan, uint32_t program, uint32_t step, BoundMemory memory);

// Calls `see` with each register of the kernel's tapes, but constants and loop counters: its value at every
// point at which its tape runs, in the order of the loops; until `see` returns false.
Status ForEachRegister(const PlanData& plan, uint32_t program, uint32_t step, const BoundMemory& memory,
                       const std::function<bool(const Tensor&)>& see);

}  // namespace rondo::tools
