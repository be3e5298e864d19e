// Epilogues that a library supports. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kernel.h"
#include "core/plan.h"

namespace rondo::cuda {

// Stores activation(sum + the values of `added`) to `out`.
struct LibraryEpilogue {
  std::vector<uint16_t> added;  // operands, each loaded unchanged
  uint16_t out = 0;             // operand
  MatmulEpilogue activation = MatmulEpilogue::kNone;
};

// No value for tapes of any other form.
std::optional<LibraryEpilogue> ReadLibraryEpilogue(const Part& part);

}  // namespace rondo::cuda
