// Matmuls of 16-bit types through tiles by mma.sync (device/matmul_mma.cuh).
#include <optional>

#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_mma"};

constexpr KernelConfiguration Tile(int64_t m, int64_t n, int64_t k, int64_t warps_m, int64_t warps_n,
                                   int64_t warps_k) {
  return {VariantId::kMma, m, n, k, warps_m, warps_n, warps_k};
}

// 8 warps. The first of several tiles with the same cost is taken.
constexpr KernelConfiguration kTiles[] = {
    Tile(128, 128, 64, 2, 4, 1), Tile(128, 64, 64, 4, 2, 1), Tile(64, 128, 64, 2, 4, 1),
    Tile(64, 64, 128, 2, 2, 2),  Tile(64, 64, 64, 2, 2, 2),  Tile(32, 64, 128, 1, 2, 4),
    Tile(32, 64, 64, 1, 2, 4),   Tile(64, 32, 128, 2, 1, 4), Tile(32, 32, 128, 1, 2, 4),
    Tile(16, 128, 128, 1, 4, 2), Tile(16, 64, 128, 1, 2, 4), Tile(16, 32, 128, 1, 1, 8),
};

std::optional<StepCycles> StepOf(const PartContext& context, const MatmulProblem& problem,
                                 const TileCase& tile) {
  const TileMatmul matmul = TileMatmulOf(context, problem, tile.configuration);
  if (!RoomOf(context.target, matmul.mma_layout(), tile)) return std::nullopt;
  const GpuTable& gpu = GpuTableOf(context.target);
  StepCycles step = MmaCycles(gpu, matmul, matmul.mma_layout(), 1);
  if (context.part.skeleton == Skeleton::kMatMul) {
    if (matmul.a_vector == 1) step.copy += matmul.m * matmul.k * gpu.tile_element;
    if (matmul.b_vector == 1) step.copy += matmul.n * matmul.k * matmul.b_count * gpu.tile_element;
  }
  return step;
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  if (!context.matmul) return {};
  const MatmulProblem& problem = *context.matmul;
  if (!SuitsHalfTiles(context, problem)) return {};
  return TileCandidates(context, problem, kTiles, 0, StepOf);
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  TileMatmul matmul = TileMatmulOf(context, problem, configuration);
  const TileRoom room =
      *RoomOf(context.target, matmul.mma_layout(), CaseOf(context, problem, configuration.k, configuration));
  matmul.stages = room.stages;
  matmul.a_vector = HalfAVector(context, problem);
  RONDO_ASSIGN_OR_RETURN(PartLaunch launch,
                         WriteTileMatmul(context, problem, "matmul_mma", matmul,
                                         matmul.mma_layout().shared(matmul.stages), writer));
  launch.resident = room.resident;
  return launch;
}

std::vector<KernelConfiguration> Tiles(const CudaTarget&) { return {std::begin(kTiles), std::end(kTiles)}; }

}  // namespace

constinit const KernelVariant kMmaMatmul = {VariantId::kMma, kHeaders, Candidates, Write, Tiles};

}  // namespace rondo::cuda
