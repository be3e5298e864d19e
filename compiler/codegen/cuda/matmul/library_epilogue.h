// Epilogues as a library has them. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kernel.h"
#include "core/plan.h"

namespace rondo::cuda {

// store to `out` of activation(sum + the values of `added`).
struct LibraryEpilogue {
  std::vector<uint16_t> added;  // operands, each loaded as it is
  uint16_t out = 0;             // operand
  MatmulEpilogue activation = MatmulEpilogue::kNone;
};

// None for tapes of any other form.
std::optional<LibraryEpilogue> ReadLibraryEpilogue(const Part& part);

}  // namespace rondo::cuda
