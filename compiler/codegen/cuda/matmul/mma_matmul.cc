// Matmuls of 16-bit types through tiles by mma.sync (device/matmul_mma.cuh).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "compiler/codegen/cuda/device/tile_layout.h"
#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_families.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_mma"};

struct Tile {
  int m, n, k, warps_m, warps_n, warps_k;  // 8 warps
};

// Of tiles that cost the same, the first is taken.
constexpr Tile kTiles[] = {
    {128, 128, 64, 2, 4, 1}, {128, 64, 64, 4, 2, 1},  {64, 128, 64, 2, 4, 1}, {64, 64, 128, 2, 2, 2},
    {64, 64, 64, 2, 2, 2},   {32, 64, 128, 1, 2, 4},  {32, 64, 64, 1, 2, 4},  {64, 32, 128, 2, 1, 4},
    {32, 32, 128, 1, 2, 4},  {16, 128, 128, 1, 4, 2}, {16, 64, 128, 1, 2, 4}, {16, 32, 128, 1, 1, 8},
};

TileLayout LayoutOf(const Tile& tile, int64_t bs) {
  return MmaLayout(tile.m, tile.n, tile.k, static_cast<int>(bs));
}

// What a block has of its multiprocessor.
struct Room {
  int64_t stages, resident;
};

// Blocks that share a multiprocessor, and stages of copies that then fit; none if too few do.
std::optional<Room> Fit(const Tile& tile, const CudaTarget& target, int64_t bs, int64_t own_steps,
                        double busiest) {
  constexpr int64_t kLeast = 3, kMost = 12,
                    kSharing = 128 * 128;  // points of the largest tile of which two fit
  const int64_t resident = tile.m * tile.n * bs <= kSharing && busiest > 1 ? 2 : 1;
  const int64_t room = resident == 1 ? target.shared : target.shared_processor / resident - 1024;
  const int64_t stages =
      std::min<int64_t>({room / LayoutOf(tile, bs).stage(), kMost, std::max<int64_t>(kLeast, own_steps + 1)});
  if (LayoutOf(tile, bs).shared(0) > room || stages < kLeast) return std::nullopt;
  return Room{stages, resident};
}

double Cycles(const GpuTable& gpu, const Tile& tile, int64_t bs, int64_t own_steps, double busiest,
              int64_t cluster) {
  TileBlock block;
  block.busiest = busiest;
  block.steps = static_cast<double>(own_steps);
  block.cluster = cluster;
  block.area = static_cast<double>(tile.m * tile.n * bs);
  block.copy = static_cast<double>(LayoutOf(tile, bs).stage()) / gpu.l2_copy_bytes;
  // The larger a warp's own tile, the less of the time goes to loading it from shared memory.
  const double own_area = block.area / static_cast<double>(tile.warps_m * tile.warps_n);
  const double rate = gpu.mma * std::min(1.0, std::sqrt(own_area / gpu.mma_full));
  block.multiply = block.area * static_cast<double>(tile.k) / rate;
  return TileCycles(gpu, block);
}

MatmulConfiguration ConfigurationOf(const Tile& tile, int64_t cluster) {
  MatmulConfiguration configuration;
  configuration.family = MatmulFamily::kMma;
  configuration.m = tile.m;
  configuration.n = tile.n;
  configuration.k = tile.k;
  configuration.warps_m = tile.warps_m;
  configuration.warps_n = tile.warps_n;
  configuration.warps_k = tile.warps_k;
  configuration.cluster = cluster;
  return configuration;
}

std::vector<MatmulCandidate> Candidates(const PartContext& context, const MatmulProblem& problem) {
  std::vector<MatmulCandidate> candidates;
  if (!SuitsHalfTiles(context, problem)) return candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  for (const Tile& tile : kTiles) {
    const int64_t steps = problem.Steps(tile.k);
    for (int64_t cluster : Clusters(context, steps)) {
      const double busiest = BusiestBlocks(context, problem, tile.m, tile.n, cluster);
      const int64_t own_steps = (steps + cluster - 1) / cluster;
      if (!Fit(tile, context.target, problem.bs, own_steps, busiest)) continue;
      const double cycles = Cycles(gpu, tile, problem.bs, own_steps, busiest, cluster);
      candidates.push_back({ConfigurationOf(tile, cluster), AmongOthers(gpu, cycles)});
    }
  }
  return candidates;
}

Result<PartLaunch> Write(const PartContext& context, const MatmulProblem& problem,
                         const MatmulConfiguration& configuration, PartWriter* writer) {
  const Part& part = context.part;
  const int64_t cluster = configuration.cluster;
  const Tile& tile = *std::find_if(std::begin(kTiles), std::end(kTiles), [&](const Tile& t) {
    return ConfigurationOf(t, cluster) == configuration;
  });
  const std::optional<Room> room =
      Fit(tile, context.target, problem.bs, (problem.Steps(tile.k) + cluster - 1) / cluster,
          BusiestBlocks(context, problem, tile.m, tile.n, cluster));
  const int lanes = EpilogueLanes(part, problem), a_lanes = ALanes(context, problem);
  const int64_t a_vector = a_lanes > 1 ? -a_lanes : AIsMade(part) ? 0 : problem.a_vector;
  const TileGrid grid = GridOf(problem, tile.m, tile.n, cluster);
  WriteTilePlaces(context, problem, grid, a_lanes, writer);
  WriteEpilogue(context, problem, lanes, "", writer);
  writer->Line("matmul_mma<" + Text(tile.m) + ", " + Text(tile.n) + ", " + Text(tile.k) + ", " +
               Text(tile.warps_m) + ", " + Text(tile.warps_n) + ", " + Text(tile.warps_k) + ", " +
               Text(room->stages) + ", " + Text(problem.bs) + ", " + Text(cluster) + ", " +
               Truth(problem.a_k_major) + ", " + Text(a_vector) + ", " + Truth(problem.b_k_major) + ", " +
               Text(problem.b_vector) + ", " + Text(lanes) + ", " +
               Truth(part.operands[part.rhs[0]].dtype == DType::kBF16) + ", " +
               Truth(AreConstant(context, part.rhs)) + ">" + TileArguments(part, problem));
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(LayoutOf(tile, problem.bs).shared(static_cast<int>(room->stages)));
  launch.cluster = static_cast<uint32_t>(cluster);
  launch.resident = static_cast<uint32_t>(room->resident);
  return WithBlocks(launch, grid.blocks);
}

std::vector<MatmulConfiguration> Tiles(const CudaTarget&) {
  std::vector<MatmulConfiguration> tiles;
  for (const Tile& tile : kTiles) tiles.push_back(ConfigurationOf(tile, 0));
  return tiles;
}

}  // namespace

constinit const MatmulTemplate kMmaMatmul = {MatmulFamily::kMma, kHeaders, Candidates, Write, Tiles};

}  // namespace rondo::cuda
