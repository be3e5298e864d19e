// Inputs for runs to which the user gives none.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// Both add to `given` a tensor for each input of `program` that is neither a state nor among them. The length
// of a bucket is its full room.

// Floats are small synthetic numbers, and integers are 0.
std::vector<Tensor> FillInputs(const PlanData& plan, uint32_t program, std::vector<Tensor> given);

// For runs whose results are only compared. Floats and bytes are random by `seed`. Integers that kernels use
// as indices are random within their bounds. Other integers and bools are 1.
std::vector<Tensor> RandomInputs(const PlanData& plan, uint32_t program, std::vector<Tensor> given,
                                 uint64_t seed);

}  // namespace rondo::tools
