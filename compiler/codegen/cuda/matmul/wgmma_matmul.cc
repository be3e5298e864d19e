// Matmuls of 16-bit types through tiles of two warp groups by wgmma, copied by threads
// (device/matmul_wgmma.cuh): what TMA cannot bring.
#include <algorithm>
#include <iterator>
#include <optional>

#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_families.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_wgmma"};

// Of tiles that cost the same, the first is taken.
constexpr HalfTile kTiles[] = {{128, 256, 64}, {128, 192, 64}, {128, 128, 64}, {128, 64, 64}};

constexpr int64_t kSlack = 1024;  // bytes that bring the stages to a multiple of 1024

// wgmma wants both sides in swizzled lines of 128 bytes, by vectors, and registers for its sums.
bool Suits(const HalfTile& tile, const PartContext& context, const MatmulProblem& problem) {
  const bool vectors = AIsMade(context.part) || (problem.a_along_k && problem.a_vector == 8);
  return context.target.warp_groups && problem.bs * tile.n <= 256 && problem.b_vector == 8 && vectors;
}

// Stages of copies that fit; none if too few do.
std::optional<int64_t> Stages(const HalfTile& tile, const CudaTarget& target, int64_t bs, int64_t own_steps) {
  constexpr int64_t kLeast = 4, kMost = 12;
  const int64_t room = target.shared - kSlack;
  const int64_t stages =
      std::min<int64_t>({room / tile.StageBytes(bs), kMost, std::max<int64_t>(3, own_steps + 1)});
  if (tile.SumBytes(bs) > room || stages < kLeast) return std::nullopt;
  return stages;
}

double Cycles(const GpuTable& gpu, const HalfTile& tile, int64_t bs, int64_t own_steps, double busiest,
              int64_t cluster) {
  TileBlock block;
  block.busiest = busiest;
  block.steps = static_cast<double>(own_steps);
  block.cluster = cluster;
  block.area = static_cast<double>(tile.m * tile.n * bs);
  block.copy = static_cast<double>(tile.StageBytes(bs)) / gpu.l2_copy_bytes;
  block.multiply = block.area * static_cast<double>(tile.k) / gpu.wgmma;
  return TileCycles(gpu, block);
}

MatmulConfiguration ConfigurationOf(const HalfTile& tile, int64_t cluster) {
  MatmulConfiguration configuration;
  configuration.family = MatmulFamily::kWgmma;
  configuration.m = tile.m;
  configuration.n = tile.n;
  configuration.cluster = cluster;
  return configuration;
}

std::vector<MatmulCandidate> Candidates(const PartContext& context, const MatmulProblem& problem) {
  std::vector<MatmulCandidate> candidates;
  if (!SuitsHalfTiles(context, problem)) return candidates;
  const GpuTable& gpu = GpuTableOf(context.target.architecture);
  for (const HalfTile& tile : kTiles) {
    if (!Suits(tile, context, problem)) continue;
    const int64_t steps = problem.Steps(tile.k);
    for (int64_t cluster : Clusters(context, steps)) {
      const int64_t own_steps = (steps + cluster - 1) / cluster;
      if (!Stages(tile, context.target, problem.bs, own_steps)) continue;
      const double busiest = BusiestBlocks(context, problem, tile.m, tile.n, cluster);
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
  const HalfTile& tile = *std::find_if(std::begin(kTiles), std::end(kTiles), [&](const HalfTile& t) {
    return ConfigurationOf(t, cluster) == configuration;
  });
  const int64_t stages =
      *Stages(tile, context.target, problem.bs, (problem.Steps(tile.k) + cluster - 1) / cluster);
  const int lanes = EpilogueLanes(part, problem), a_lanes = ALanes(context, problem);
  const int64_t a_vector = a_lanes > 1 ? -a_lanes : AIsMade(part) ? 0 : problem.a_vector;
  const TileGrid grid = GridOf(problem, tile.m, tile.n, cluster);
  WriteTilePlaces(context, problem, grid, a_lanes, writer);
  WriteEpilogue(context, problem, lanes, "", writer);
  writer->Line("group_product<" + Text(tile.n) + ", " + Text(stages) + ", " + Text(problem.bs) + ", " +
               Text(cluster) + ", " + Text(a_vector) + ", " + Truth(problem.b_along_k) + ", " + Text(lanes) +
               ", " + Truth(part.operands[part.rhs[0]].dtype == DType::kBF16) + ", " +
               Truth(AreConstant(context, part.rhs)) + ">" + TileArguments(part, problem));
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(
      kSlack + std::max(stages * tile.StageBytes(problem.bs), tile.SumBytes(problem.bs)));
  launch.cluster = static_cast<uint32_t>(cluster);
  return WithBlocks(launch, grid.blocks);
}

std::vector<MatmulConfiguration> Tiles(const CudaTarget& target) {
  std::vector<MatmulConfiguration> tiles;
  if (!target.warp_groups) return tiles;
  for (const HalfTile& tile : kTiles) tiles.push_back(ConfigurationOf(tile, 0));
  return tiles;
}

}  // namespace

constinit const MatmulTemplate kWgmmaMatmul = {MatmulFamily::kWgmma, kHeaders, Candidates, Write, Tiles};

}  // namespace rondo::cuda
