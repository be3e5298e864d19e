// LibraryMatmulOf: which kernels a matmul library can compute unchanged, and how.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernel.h"
#include "core/library_matmul_rules.h"
#include "core/plan.h"

namespace rondo {

// Accepts kernels of one matmul with one B and no prologue, of f16, bf16 or f32, whose A and B are strided
// matrices, and whose epilogue cuBLASLt supports: the sum, plus a bias for each column, plus an addend of the
// result's type, then nothing, ReLU or GELU by tanh. The workspace is MostWorkspace; the library chooses the
// `algorithm`. No value for other kernels.
std::optional<LibraryMatmul> LibraryMatmulOf(const Kernel& kernel);

// Bytes of workspace for a matmul of this shape on `architecture` (10 * major + minor): the most that a
// library uses, or less if the sums of a split K need less. A kernel's workspace is longer by
// kWorkspaceSlack, so that the library can align within it.
uint64_t MostWorkspace(const LibraryMatmul& matmul, int architecture);

}  // namespace rondo
