// Helpers for variants whose blocks copy tiles of A and B to shared memory and multiply them there: suitable
// problems, the loop over candidates, and the text. Internal to compiler/codegen/cuda.
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

// Whether tiles of 16-bit types (of f32) can compute the part, and it is large enough.
bool SuitsHalfTiles(const PartContext& context, const MatmulProblem& problem);
bool SuitsFloatTiles(const PartContext& context, const MatmulProblem& problem);

// Whether threads compute A, because of a prologue or of indices from data. They do it element by element or,
// if the tape can read vectors along K, ALanes at a time.
bool AIsMade(const Part& part);
int ALanes(const PartContext& context, const MatmulProblem& problem);
// The vector width at which tiles of 16-bit types read A (TileMatmul::a_vector).
int HalfAVector(const PartContext& context, const MatmulProblem& problem);

// A tile of a problem; blocks may split K.
struct TileCase {
  KernelConfiguration configuration;
  double busiest = 1;     // blocks of the busiest multiprocessor
  int64_t own_steps = 1;  // of K, for each block
};
TileCase CaseOf(const PartContext& context, const MatmulProblem& problem, int64_t tile_k,
                const KernelConfiguration& configuration);

// Cycles of one of a block's steps of K: of its copies, and of its multiplications.
struct StepCycles {
  double copy = 0, multiply = 0;
};

// The resources of a block of an mma.sync variant: stages of copies, and the number of blocks on a
// multiprocessor. No value if too few stages fit.
struct TileRoom {
  int stages;
  uint32_t resident;
};
std::optional<TileRoom> RoomOf(const CudaTarget& target, const TileLayout& layout, const TileCase& tile);
// One step by mma.sync, with tensor cores that are `rate` times as fast as with 16-bit types.
StepCycles MmaCycles(const GpuTable& gpu, const TileMatmul& matmul, const TileLayout& layout, double rate);

// The candidates of a variant: each of `tiles` (clusters left open) with each cluster that may split K, for
// which `step` returns a value; no value: the tile does not fit.
std::vector<KernelCandidate> TileCandidates(const PartContext& context, const MatmulProblem& problem,
                                            Span<const KernelConfiguration> tiles, int64_t tile_k,
                                            std::optional<StepCycles> (*step)(const PartContext& context,
                                                                              const MatmulProblem& problem,
                                                                              const TileCase& tile));

// The fields that all variants share for a candidate: 16-bit operands as in memory, one epilogue, no stages
// yet.
TileMatmul TileMatmulOf(const PartContext& context, const MatmulProblem& problem,
                        const KernelConfiguration& configuration);

// The text of a tiled matmul, which calls the named device template (device/matmul_mma.cuh and others), and
// its launch with `shared` bytes of shared memory. `more`: further template arguments, ", ...".
Result<PartLaunch> WriteTileMatmul(const PartContext& context, const MatmulProblem& problem,
                                   std::string_view device_template, const TileMatmul& matmul, int shared,
                                   PartWriter* writer, const std::string& more = "");

}  // namespace rondo::cuda
