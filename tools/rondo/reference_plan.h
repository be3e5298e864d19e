// The plan that a model is compared by: compiled for the host, in the model's own precision, with each of its
// nodes in a kernel of its own, so that each value is in memory under the model's name.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"

namespace rondo::tools {

// What `rondo compile` is told for that: `model`, and of the options that `plan` was compiled with those that
// say what its program computes (shapes, states, lengths), not how.
std::vector<std::string> ReferenceWords(const std::string& model, const PlanData& plan, uint32_t program,
                                        const std::string& output);

}  // namespace rondo::tools
