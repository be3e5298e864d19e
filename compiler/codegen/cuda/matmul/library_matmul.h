// LibraryMatmulOf: which kernels a library for matmuls can compute as they are, and how.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernel.h"
#include "core/library_matmul_rules.h"
#include "core/plan.h"

namespace rondo {

// Kernels of one matmul with one B and no prologue, of f16, bf16 or f32, whose A and B are strided
// matrices, and whose epilogue is what cuBLASLt has: the sum, plus a bias a column, plus an addend of
// the result's type, then nothing, ReLU or GELU by tanh. The matmul's workspace is what MostWorkspace says;
// `algorithm` is left to the library. None for all others.
std::optional<LibraryMatmul> LibraryMatmulOf(const Kernel& kernel);

// Bytes of scratch that a matmul of this shape can be given on `architecture` (10 * major + minor): what a
// library wants at most, less where the sums of a split K need no more. A kernel's workspace is longer by
// kWorkspaceSlack, so that the library finds the alignment that it wants in it.
uint64_t MostWorkspace(const LibraryMatmul& matmul, int architecture);

}  // namespace rondo
