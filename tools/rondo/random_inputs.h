// Inputs for runs whose results are only compared.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan.h"
#include "formats/tensor/tensor.h"

namespace rondo::tools {

// A tensor for each input of `program` that is neither a state nor among `given`, which come first. Floats
// and bytes are random by `seed`. Integers that kernels use as indices are random within their bounds. The
// length of a bucket is its full room. Other integers and bools are 1.
std::vector<Tensor> RandomInputs(const PlanData& plan, uint32_t program, std::vector<Tensor> given,
                                 uint64_t seed);

}  // namespace rondo::tools
