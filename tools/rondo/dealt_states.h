// States of a plan that is sharded over devices (--tp, --pp): converts the whole tensors of users to each
// device's share, and back.
#pragma once

#include <vector>

#include "compiler/compile.h"
#include "core/plan.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// Replaces each state in `tensors` (named like the model's inputs) by its shares, one per device, named like
// the plan's ports. kInvalidArgument for a tensor without the state's shape.
Result<std::vector<Tensor>> DealStates(const PlanData& plan, uint32_t program,
                                       const std::vector<StateShare>& shares, std::vector<Tensor> tensors);

// The reverse, after a run: replaces a state's shares by the whole state, named like the model's output.
// kInternal if devices differ in a part that several hold, or if no device holds a part.
Result<std::vector<Tensor>> JoinStates(const PlanData& plan, uint32_t program,
                                       const std::vector<StateShare>& shares, std::vector<Tensor> tensors);

}  // namespace rondo::tools
