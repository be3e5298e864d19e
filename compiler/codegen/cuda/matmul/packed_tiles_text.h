// What the variants of matmuls by packed weights share whose tiles TMA brings
// (device/matmul_packed_tiles.cuh): their operands, and the text. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>

#include "compiler/codegen/cuda/device/packed_tiles_layout.h"
#include "compiler/codegen/cuda/kernel_configuration.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/matmul/tma_operands.h"
#include "compiler/codegen/cuda/part_context.h"
#include "core/status.h"

namespace rondo::cuda {

// A's map, where TMA can bring A as it is, in tiles of `rows` rows or a multiple of them.
std::optional<TmaOperands> PackedTilesAMapOf(const PartContext& context, const MatmulProblem& problem,
                                             int64_t rows);

// The problem in tiles of m x n (of each B) by k. What is left is the variant's: how K is split, who
// multiplies, the stages.
PackedTiles PackedTilesOf(const PartContext& context, const MatmulProblem& problem, bool a_made,
                          const KernelConfiguration& tile);

// Appends the body of the part's function. `a`: A's map, unless threads make A; `resident`: blocks that a
// multiprocessor should hold at once. Errors: as KernelVariant::write.
Result<PartLaunch> WritePackedTiles(const PartContext& context, PackedTiles matmul,
                                    const std::optional<TmaOperands>& a, int64_t blocks, int64_t resident,
                                    PartWriter* writer);

}  // namespace rondo::cuda
