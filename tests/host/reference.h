// The reference for kernels, one iteration point at a time, straight from the comments of core/kernel.h.
#pragma once

#include <vector>

#include "core/kernel.h"
#include "core/span.h"

namespace rondo::test {

// Whether a condition of the part does not hold.
bool IsSkipped(const Part& part, const std::vector<Span<char>>& params);

// Runs `kernel` over the memory of its parameters. Returns whether a faulting index was out of range. An
// access outside of its parameter's memory ends the test program; the message names operand and kernel.
bool RunReference(const Kernel& kernel, const std::vector<Span<char>>& params);

}  // namespace rondo::test
