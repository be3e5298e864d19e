// The most memory that a plan needs, and the buffers that need it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/rondo.hpp"

namespace rondo::testing {

// Weights, arena and state of all devices; UINT64_MAX if the plan is not open.
uint64_t PeakBytes(const api::Plan& plan);

// The moment when the arena is fullest, and the largest buffers alive then, one on each line.
std::string PeakText(const api::Plan& plan);

}  // namespace rondo::testing
