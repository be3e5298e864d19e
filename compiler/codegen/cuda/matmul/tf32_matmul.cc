// Matmuls of f32 whose factors may be rounded to tf32 (device/matmul_tf32.cuh).
#include <algorithm>
#include <cmath>
#include <iterator>

#include "compiler/codegen/cuda/device/tile_layout.h"
#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_families.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_tf32"};

struct Tile {
  int64_t m, n, warps_m, warps_n;  // 8 warps
};

// Of tiles that cost the same, the first is taken.
constexpr Tile kTiles[] = {{128, 128, 2, 4}, {128, 64, 4, 2}, {64, 128, 2, 4},
                           {64, 64, 2, 4},   {32, 64, 2, 4},  {32, 32, 2, 4}};

MatmulConfiguration ConfigurationOf(const Tile& tile, int64_t cluster) {
  MatmulConfiguration configuration;
  configuration.family = MatmulFamily::kTf32;
  configuration.m = tile.m;
  configuration.n = tile.n;
  configuration.cluster = cluster;
  return configuration;
}

TileLayout LayoutOf(const Tile& tile, const MatmulProblem& problem) {
  return FloatLayout(static_cast<int>(tile.m), static_cast<int>(tile.n), static_cast<int>(problem.bs),
                     problem.a_k_major, problem.b_k_major);
}

// As for tiles of 16-bit types, with half the rate at most: fragments are loaded element by element.
double Cycles(const GpuTable& gpu, const MatmulProblem& problem, const Tile& tile, int64_t own_steps,
              double busiest, int64_t cluster) {
  constexpr double kWarps = 8;
  TileBlock block;
  block.busiest = busiest;
  block.steps = static_cast<double>(own_steps);
  block.cluster = cluster;
  block.area = static_cast<double>(tile.m * tile.n * problem.bs);
  block.copy = static_cast<double>(LayoutOf(tile, problem).stage()) / gpu.l2_copy_bytes;
  const double rate = gpu.tf32 * std::min(1.0, std::sqrt(block.area / kWarps / gpu.mma_full));
  block.multiply = block.area * int{kFloatTileK} / rate;
  return TileCycles(gpu, block);
}

std::vector<MatmulCandidate> Candidates(const PartContext& context, const MatmulProblem& problem) {
  std::vector<MatmulCandidate> candidates;
  const Part& part = context.part;
  const DType a = part.operands[part.lhs].dtype, b = part.operands[part.rhs[0]].dtype;
  if (!part.tf32 || b != DType::kF32 || (part.prologue.empty() && a != DType::kF32) ||
      !SuitsFloatTiles(context, problem))
    return candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  const int64_t steps = problem.Steps(kFloatTileK);
  for (const Tile& tile : kTiles) {
    if (LayoutOf(tile, problem).shared(kFloatStages) > static_cast<int64_t>(context.target.shared)) continue;
    for (int64_t cluster : Clusters(context, steps)) {
      const double busiest = BusiestBlocks(context, problem, tile.m, tile.n, cluster);
      const double cycles = Cycles(gpu, problem, tile, (steps + cluster - 1) / cluster, busiest, cluster);
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
  const TileGrid grid = GridOf(problem, tile.m, tile.n, cluster);
  const int lanes = EpilogueLanes(part, problem);
  WriteTilePlaces(context, problem, grid, 1, writer);
  WriteEpilogue(context, problem, lanes, "", writer);
  writer->Line("matmul_tf32<" + Text(tile.m) + ", " + Text(tile.n) + ", " + Text(tile.warps_m) + ", " +
               Text(tile.warps_n) + ", " + Text(int{kFloatStages}) + ", " + Text(problem.bs) + ", " +
               Text(cluster) + ", " + Truth(problem.a_k_major) + ", " +
               Text(AIsMade(part) ? 0 : problem.a_vector) + ", " + Truth(problem.b_k_major) + ", " +
               Text(problem.b_vector) + ", " + Text(lanes) + ", " + Truth(AreConstant(context, part.rhs)) +
               ">" + TileArguments(part, problem));
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(LayoutOf(tile, problem).shared(kFloatStages));
  launch.cluster = static_cast<uint32_t>(cluster);
  return WithBlocks(launch, grid.blocks);
}

}  // namespace

constinit const MatmulTemplate kTf32Matmul = {MatmulFamily::kTf32, kHeaders, Candidates, Write};

}  // namespace rondo::cuda
