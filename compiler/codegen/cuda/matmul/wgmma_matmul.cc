// Matmuls of 16-bit types through tiles of two warp groups by wgmma, copied by threads
// (device/matmul_wgmma.cuh): what TMA cannot bring.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/device/tile_layout.h"
#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_families.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_wgmma"};

// Of tiles that cost the same, the first is taken.
constexpr int kWidths[] = {256, 192, 128, 64};

TileLayout LayoutOf(int width, int64_t bs) { return WgmmaLayout(width, static_cast<int>(bs)); }

// wgmma wants both sides in swizzled lines of 128 bytes, by vectors, and registers for its sums.
bool Suits(int width, const PartContext& context, const MatmulProblem& problem) {
  const bool vectors = AIsMade(context.part) || (problem.a_k_major && problem.a_vector == 8);
  return context.target.warp_groups && problem.bs * width <= 256 && problem.b_vector == 8 && vectors;
}

// Stages of copies that fit; none if too few do.
std::optional<int64_t> Stages(int width, const CudaTarget& target, int64_t bs, int64_t own_steps) {
  constexpr int64_t kLeast = 4, kMost = 12;
  const TileLayout layout = LayoutOf(width, bs);
  const int64_t room = target.shared - layout.slack();
  const int64_t stages =
      std::min<int64_t>({room / layout.stage(), kMost, std::max<int64_t>(3, own_steps + 1)});
  if (layout.shared(0) > static_cast<int64_t>(target.shared) || stages < kLeast) return std::nullopt;
  return stages;
}

double Cycles(const GpuTable& gpu, int width, int64_t bs, int64_t own_steps, double busiest,
              int64_t cluster) {
  TileBlock block;
  block.busiest = busiest;
  block.steps = static_cast<double>(own_steps);
  block.cluster = cluster;
  block.area = static_cast<double>(kWgmmaTileM * width * bs);
  block.copy = static_cast<double>(LayoutOf(width, bs).stage()) / gpu.l2_copy_bytes;
  block.multiply = block.area * static_cast<double>(kWgmmaTileK) / gpu.wgmma;
  return TileCycles(gpu, block);
}

MatmulConfiguration ConfigurationOf(int width, int64_t cluster) {
  MatmulConfiguration configuration;
  configuration.family = MatmulFamily::kWgmma;
  configuration.m = kWgmmaTileM;
  configuration.n = width;
  configuration.cluster = cluster;
  return configuration;
}

std::vector<MatmulCandidate> Candidates(const PartContext& context, const MatmulProblem& problem) {
  std::vector<MatmulCandidate> candidates;
  if (!SuitsHalfTiles(context, problem)) return candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  for (int width : kWidths) {
    if (!Suits(width, context, problem)) continue;
    const int64_t steps = problem.Steps(kWgmmaTileK);
    for (int64_t cluster : Clusters(context, steps)) {
      const int64_t own_steps = (steps + cluster - 1) / cluster;
      if (!Stages(width, context.target, problem.bs, own_steps)) continue;
      const double busiest = BusiestBlocks(context, problem, kWgmmaTileM, width, cluster);
      const double cycles = Cycles(gpu, width, problem.bs, own_steps, busiest, cluster);
      candidates.push_back({ConfigurationOf(width, cluster), AmongOthers(gpu, cycles)});
    }
  }
  return candidates;
}

Result<PartLaunch> Write(const PartContext& context, const MatmulProblem& problem,
                         const MatmulConfiguration& configuration, PartWriter* writer) {
  const Part& part = context.part;
  const int64_t cluster = configuration.cluster;
  const int width = static_cast<int>(configuration.n);
  const int64_t stages =
      *Stages(width, context.target, problem.bs, (problem.Steps(kWgmmaTileK) + cluster - 1) / cluster);
  const int lanes = EpilogueLanes(part, problem), a_lanes = ALanes(context, problem);
  const int64_t a_vector = a_lanes > 1 ? -a_lanes : AIsMade(part) ? 0 : problem.a_vector;
  const TileGrid grid = GridOf(problem, kWgmmaTileM, width, cluster);
  WriteTilePlaces(context, problem, grid, a_lanes, writer);
  WriteEpilogue(context, problem, lanes, "", writer);
  writer->Line("matmul_wgmma<" + Text(width) + ", " + Text(stages) + ", " + Text(problem.bs) + ", " +
               Text(cluster) + ", " + Text(a_vector) + ", " + Truth(problem.b_k_major) + ", " + Text(lanes) +
               ", " + Truth(part.operands[part.rhs[0]].dtype == DType::kBF16) + ", " +
               Truth(AreConstant(context, part.rhs)) + ">" + TileArguments(part, problem));
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(LayoutOf(width, problem.bs).shared(static_cast<int>(stages)));
  launch.cluster = static_cast<uint32_t>(cluster);
  return WithBlocks(launch, grid.blocks);
}

std::vector<MatmulConfiguration> Tiles(const CudaTarget& target) {
  std::vector<MatmulConfiguration> tiles;
  if (!target.warp_groups) return tiles;
  for (int width : kWidths) tiles.push_back(ConfigurationOf(width, 0));
  return tiles;
}

}  // namespace

constinit const MatmulTemplate kWgmmaMatmul = {MatmulFamily::kWgmma, kHeaders, Candidates, Write, Tiles};

}  // namespace rondo::cuda
