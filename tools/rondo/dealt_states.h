// States of a plan that are dealt out over its devices (--tp, --pp), as the whole tensors that people have:
// what each device's share is filled with, and what the shares are together.
#ifndef RONDO_TOOLS_RONDO_DEALT_STATES_H_
#define RONDO_TOOLS_RONDO_DEALT_STATES_H_

#include <vector>

#include "compiler/compile.h"
#include "core/plan.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// `tensors`, named as the model's inputs: each that is a state gives way to one a device, named as the plan's
// port there. kInvalidArgument for one that has not the shape of the state.
Result<std::vector<Tensor>> DealStates(const PlanData& plan, uint32_t program,
                                       const std::vector<StateShare>& shares, std::vector<Tensor> tensors);

// The other way round, of what a run has left: a state's shares give way to all of it, named as the model's
// output. kInternal if devices that hold the same of it hold other bits, or if no device holds a part of it.
Result<std::vector<Tensor>> JoinStates(const PlanData& plan, uint32_t program,
                                       const std::vector<StateShare>& shares, std::vector<Tensor> tensors);

}  // namespace rondo::tools

#endif  // RONDO_TOOLS_RONDO_DEALT_STATES_H_
