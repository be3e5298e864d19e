// What variants share whose blocks copy tiles of A and B to shared memory and multiply them there: which
// problems suit, the loop over candidates, and the text. Internal to compiler/codegen/cuda.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/codegen/cuda/device/tile_layout.h"
#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/kernel_configuration.h"
#include "compiler/codegen/cuda/matmul/matmul_problem.h"
#include "compiler/codegen/cuda/part_writer.h"

namespace rondo::cuda {

// Whether tiles of 16-bit types, or of f32, can compute the part, and there is enough of it.
bool SuitsHalfTiles(const PartContext& context, const MatmulProblem& problem);
bool SuitsFloatTiles(const PartContext& context, const MatmulProblem& problem);

// An A through a prologue, or with indices from data, is made element by element, or, if its tape reads
// vectors along K, ALanes at a time.
bool AIsMade(const Part& part);
int ALanes(const PartContext& context, const MatmulProblem& problem);
// How tiles of 16-bit types read A (TileMatmul::a_vector).
int HalfAVector(const PartContext& context, const MatmulProblem& problem);

// A tile of a problem, by blocks that split K or not.
struct TileCase {
  KernelConfiguration configuration;
  double busiest = 1;     // blocks of the busiest multiprocessor
  int64_t own_steps = 1;  // of K, of each block
};
TileCase CaseOf(const PartContext& context, const MatmulProblem& problem, int64_t tile_k,
                const KernelConfiguration& configuration);

// Cycles that one of a block's steps of K takes: what its copies take, and what its multiplications do.
struct StepCycles {
  double copy = 0, multiply = 0;
};

// What a block of a variant by mma.sync has of its multiprocessor: stages of copies, and how many blocks
// share it. None if too few stages fit.
struct TileRoom {
  int stages;
  uint32_t resident;
};
std::optional<TileRoom> RoomOf(const CudaTarget& target, const TileLayout& layout, const TileCase& tile);
// A step by mma.sync, whose tensor cores multiply `rate` times as many as of 16-bit types.
StepCycles MmaCycles(const GpuTable& gpu, const TileMatmul& matmul, const TileLayout& layout, double rate);

// The candidates of a variant: each of `tiles` (clusters left open), and each cluster that may split K, for
// which `step` has an answer; none: the tile does not fit.
std::vector<KernelCandidate> TileCandidates(const PartContext& context, const MatmulProblem& problem,
                                            Span<const KernelConfiguration> tiles, int64_t tile_k,
                                            std::optional<StepCycles> (*step)(const PartContext& context,
                                                                              const MatmulProblem& problem,
                                                                              const TileCase& tile));

// Of a candidate, what all variants have in common: 16-bit operands as they lie, one epilogue, no stages yet.
TileMatmul TileMatmulOf(const PartContext& context, const MatmulProblem& problem,
                        const KernelConfiguration& configuration);

// The text of a tiled matmul, which calls the device template of that name (device/matmul_mma.cuh and
// others), and its launch with so many bytes of shared memory. `more`: of the template's arguments, ", ...".
Result<PartLaunch> WriteTileMatmul(const PartContext& context, const MatmulProblem& problem,
                                   std::string_view device_template, const TileMatmul& matmul, int shared,
                                   PartWriter* writer, const std::string& more = "");

}  // namespace rondo::cuda
