// What every LoweredProgram must keep to, and how one is printed.
#pragma once

#include <string>

#include "compiler/fusion/lowered.h"

namespace rondo {

// The first broken rule as a sentence; empty if all hold: indices in range, deps pointing backwards, one
// binding a kernel parameter, sizes that fit shapes, constants with data, ports of the right kinds (state for
// state, input and output for the rest). Only structure: what kernels do is the plan verifier's business.
std::string LoweredRulesBroken(const LoweredProgram& program);

// One line a value and an op; deterministic. What --dump-after prints from fusion on.
std::string Dump(const LoweredProgram& program);

}  // namespace rondo
