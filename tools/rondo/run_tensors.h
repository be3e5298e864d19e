// Runs over tensors in host memory, for commands that read inputs from files and write outputs to files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/status.h"
#include "formats/tensor/tensor.h"
#include "runtime/session.h"

namespace rondo::tools {

// The tensors as inputs of `program`; they must outlive the result. A u16 tensor for a bf16 input holds its
// bit patterns, because .npy has no bf16.
std::vector<Input> InputsOf(const PlanData& plan, uint32_t program, Span<const Tensor> tensors);

// Runs `program` with `inputs` (named like input ports; states may be among them). Returns all its outputs on
// this process's devices, states included, in the order of the program's ports.
Result<std::vector<Tensor>> RunOnTensors(Session& session, uint32_t program,
                                         const std::vector<Tensor>& inputs, const RunOptions& options = {});

// Sets the states of `program` that are in `tensors` by one run, and removes them from the list. Later runs
// continue from these states. Without states nothing runs.
Status SetStates(Session& session, uint32_t program, std::vector<Tensor>* tensors);
// Removes the states of `program` from the list.
void DropStates(const PlanData& plan, uint32_t program, std::vector<Tensor>* tensors);

// A sentence about the first argument without the form NAME=FILE; "" if there is none.
std::string NotNamedFile(const std::vector<std::string>& arguments);
// Reads NAME=FILE arguments.
Result<std::vector<Tensor>> ReadNamedTensors(const std::vector<std::string>& arguments);

}  // namespace rondo::tools
