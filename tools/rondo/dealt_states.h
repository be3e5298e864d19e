// States of a plan that is shared out over devices (--tp, --pp): from the whole tensors that users have to
// each device's share, and back.
#pragma once

#include <vector>

#include "compiler/compile.h"
#include "core/plan.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// Replaces each state among `tensors` (named as the model's inputs) by its shares, one per device, named as
// the plan's ports. kInvalidArgument for a tensor that does not have the state's shape.
Result<std::vector<Tensor>> DealStates(const PlanData& plan, uint32_t program,
                                       const std::vector<StateShare>& shares, std::vector<Tensor> tensors);

// The reverse, after a run: replaces a state's shares by the whole state, named as the model's output.
// kInternal if devices disagree about a part that several hold, or if no device holds a part.
Result<std::vector<Tensor>> JoinStates(const PlanData& plan, uint32_t program,
                                       const std::vector<StateShare>& shares, std::vector<Tensor> tensors);

}  // namespace rondo::tools
