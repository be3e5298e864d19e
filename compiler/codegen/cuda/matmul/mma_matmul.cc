// Matmuls of 16-bit types through tiles by mma.sync (device/matmul_mma.cuh).
#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_families.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_mma"};

constexpr MatmulConfiguration Tile(int64_t m, int64_t n, int64_t k, int64_t warps_m, int64_t warps_n,
                                   int64_t warps_k) {
  return {MatmulFamily::kMma, m, n, k, warps_m, warps_n, warps_k};
}

// 8 warps. Of tiles that cost the same, the first is taken.
constexpr MatmulConfiguration kTiles[] = {
    Tile(128, 128, 64, 2, 4, 1), Tile(128, 64, 64, 4, 2, 1), Tile(64, 128, 64, 2, 4, 1),
    Tile(64, 64, 128, 2, 2, 2),  Tile(64, 64, 64, 2, 2, 2),  Tile(32, 64, 128, 1, 2, 4),
    Tile(32, 64, 64, 1, 2, 4),   Tile(64, 32, 128, 2, 1, 4), Tile(32, 32, 128, 1, 2, 4),
    Tile(16, 128, 128, 1, 4, 2), Tile(16, 64, 128, 1, 2, 4), Tile(16, 32, 128, 1, 1, 8),
};

// What a block has of its multiprocessor.
struct Room {
  int stages;
  uint32_t resident;  // blocks that share it
};

// None if too few stages of copies fit.
std::optional<Room> RoomOf(const CudaTarget& target, const TileMatmul& matmul, const TileCase& tile) {
  constexpr int64_t kLeast = 3, kMost = 12,
                    kSharing = 128 * 128;  // points of the largest tile of which two fit
  const TileLayout layout = matmul.mma_layout();
  const uint32_t resident = matmul.m * matmul.n * matmul.b_count <= kSharing && tile.busiest > 1 ? 2 : 1;
  const int64_t room = resident == 1 ? target.shared : target.shared_processor / resident - 1024;
  const int64_t stages =
      std::min<int64_t>({room / layout.stage(), kMost, std::max<int64_t>(kLeast, tile.own_steps + 1)});
  if (layout.shared(0) > room || stages < kLeast) return std::nullopt;
  return Room{static_cast<int>(stages), resident};
}

std::optional<StepCycles> StepOf(const PartContext& context, const MatmulProblem& problem,
                                 const TileCase& tile) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const TileMatmul matmul = TileMatmulOf(context, problem, tile.configuration);
  if (!RoomOf(context.target, matmul, tile)) return std::nullopt;
  // The larger a warp's own tile, the less of the time goes to loading it from shared memory.
  const double area = matmul.m * matmul.n * matmul.b_count;
  const double own_area = area / (matmul.warps_m * matmul.warps_n);
  const double rate = gpu.mma * std::min(1.0, std::sqrt(own_area / gpu.mma_full));
  return StepCycles{matmul.mma_layout().stage() / gpu.l2_copy_bytes, area * matmul.k / rate};
}

std::vector<MatmulCandidate> Candidates(const PartContext& context, const MatmulProblem& problem) {
  if (!SuitsHalfTiles(context, problem)) return {};
  return TileCandidates(context, problem, kTiles, 0, StepOf);
}

Result<PartLaunch> Write(const PartContext& context, const MatmulProblem& problem,
                         const MatmulConfiguration& configuration, PartWriter* writer) {
  TileMatmul matmul = TileMatmulOf(context, problem, configuration);
  const Room room = *RoomOf(context.target, matmul, CaseOf(context, problem, configuration.k, configuration));
  matmul.stages = room.stages;
  matmul.a_vector = HalfAVector(context, problem);
  RONDO_ASSIGN_OR_RETURN(PartLaunch launch,
                         WriteTileMatmul(context, problem, "matmul_mma", matmul,
                                         matmul.mma_layout().shared(matmul.stages), writer));
  launch.resident = room.resident;
  return launch;
}

std::vector<MatmulConfiguration> Tiles(const CudaTarget&) { return {std::begin(kTiles), std::end(kTiles)}; }

}  // namespace

constinit const MatmulTemplate kMmaMatmul = {MatmulFamily::kMma, kHeaders, Candidates, Write, Tiles};

}  // namespace rondo::cuda
