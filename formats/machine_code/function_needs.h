// FunctionNeeds: what a kernel's function requires of a launch and of the GPU.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo {

// A plain value. 0: the code does not say.
struct FunctionNeeds {
  std::vector<uint32_t> params;  // bytes of each, in order
  uint32_t registers = 0;        // for each thread
  uint32_t shared = 0;           // static bytes for each block
  uint32_t most_threads = 0;     // of a block
  uint32_t exact_threads = 0;    // of a block
  uint32_t cluster = 0;          // blocks
};

// More parameters than any function has.
inline constexpr uint32_t kMostFunctionParams = 8192;

}  // namespace rondo
