// Inputs for a run whose results are compared, not looked at.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// A tensor for each input of `program` that is neither state nor among `given`, which come first: floats and
// bytes at random by `seed`; integers that kernels index by, at random within the bounds of that; the length
// of a bucket, as much as it has room for; other integers and bools 1.
std::vector<Tensor> RandomInputs(const PlanData& plan, uint32_t program, std::vector<Tensor> given,
                                 uint64_t seed);

}  // namespace rondo::tools
