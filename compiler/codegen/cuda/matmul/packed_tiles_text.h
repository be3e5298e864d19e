// Helpers for matmul variants with packed weights and TMA tiles (device/matmul_packed_tiles.cuh): their
// operands, and the text. Internal to compiler/codegen/cuda.
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

// A's tensor map, if TMA can copy A unchanged, in tiles of `rows` rows or a multiple of them.
std::optional<TmaOperands> PackedTilesAMapOf(const PartContext& context, const MatmulProblem& problem,
                                             int64_t rows);

// The problem in tiles of m x n (of each B) by k. The variant fills in the rest: how K is split, which warps
// multiply, the stages.
PackedTiles PackedTilesOf(const PartContext& context, const MatmulProblem& problem, bool a_made,
                          const KernelConfiguration& tile);

// Appends the body of the part's function. `a`: A's map, unless threads compute A; `resident`: blocks that
// should be resident on a multiprocessor at once. Errors: as KernelVariant::write.
Result<PartLaunch> WritePackedTiles(const PartContext& context, PackedTiles matmul,
                                    const std::optional<TmaOperands>& a, int64_t blocks, int64_t resident,
                                    PartWriter* writer);

}  // namespace rondo::cuda
