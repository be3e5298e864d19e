// The most memory that a plan takes, and what takes it.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/rondo.hpp"

namespace rondo::testing {

// Weights, arena and state of all devices; UINT64_MAX if the plan is not open.
uint64_t PeakBytes(const api::Plan& plan);

// When its arena is fullest, and the largest buffers that are alive then, a line each.
std::string PeakText(const api::Plan& plan);

}  // namespace rondo::testing
