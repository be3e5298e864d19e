// The plan against which a model is compared. It is compiled for the host in the model's own precision. Each
// node has its own kernel, so that each value is in memory under the model's name.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"

namespace rondo::tools {

// The arguments of `rondo compile` for that: `model`, and those of `plan`'s options that affect what its
// program computes (shapes, states, lengths), but not how.
std::vector<std::string> ReferenceWords(const std::string& model, const PlanData& plan, uint32_t program,
                                        const std::string& output);

}  // namespace rondo::tools
