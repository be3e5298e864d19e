// The meaning of a kernel, one iteration point at a time, straight from the comments of core/kernel.h.
#ifndef RONDO_TESTS_HOST_REFERENCE_H_
#define RONDO_TESTS_HOST_REFERENCE_H_

#include <vector>

#include "core/kernel.h"

namespace rondo::test {

// Runs `kernel` over memory `params`. Returns whether a faulting index was out of range.
bool RunReference(const Kernel& kernel, const std::vector<char*>& params);

}  // namespace rondo::test

#endif  // RONDO_TESTS_HOST_REFERENCE_H_
