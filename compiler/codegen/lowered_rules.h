// The rules of a LoweredProgram, and its dump.
#pragma once

#include <string>

#include "compiler/fusion/lowered.h"

namespace rondo {

// The first broken rule as a sentence; empty if all hold: indices in range, deps that point backwards, one
// binding for each kernel parameter, sizes that fit shapes, constants with data, ports of the right kinds
// (state for state, input and output for the rest). Checks structure only; the plan verifier checks kernels.
std::string LoweredRulesBroken(const LoweredProgram& program);

// One line a value and an op; deterministic. What --dump-after prints from fusion on.
std::string Dump(const LoweredProgram& program);

}  // namespace rondo
