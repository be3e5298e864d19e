// Matmuls whose tiles TMA brings, for wgmma (device/matmul_tma.cuh): one warp asks for tiles, two groups
// of warps multiply, tile after tile.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "compiler/codegen/cuda/device/tma_layout.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_families.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/matmul/tma_operands.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_tma"};

// What the blocks of a cluster are: `down` share the columns, `across` the rows, and `split` divide K.
struct Sharing {
  int64_t down, across, split;
  int64_t blocks() const { return down * across * split; }
};
constexpr Sharing kSharings[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 1, 4}, {1, 1, 8}};

struct Tile {
  int64_t m, n;
  Sharing sharing = kSharings[0];
};
// Of tiles that cost the same, the first is taken.
constexpr Tile kTiles[] = {{128, 256}, {128, 224}, {128, 208}, {128, 192}, {128, 160}, {128, 128}, {128, 96},
                           {128, 64},  {64, 256},  {64, 192},  {64, 128},  {64, 96},   {64, 64}};

MatmulConfiguration ConfigurationOf(const Tile& tile) {
  MatmulConfiguration configuration;
  configuration.family = MatmulFamily::kTma;
  configuration.m = tile.m;
  configuration.n = tile.n;
  configuration.warps_m = tile.sharing.down;
  configuration.warps_n = tile.sharing.across;
  configuration.warps_k = tile.sharing.split;
  configuration.cluster = tile.sharing.blocks();
  return configuration;
}

Tile TileOf(const MatmulConfiguration& c) { return {c.m, c.n, {c.warps_m, c.warps_n, c.warps_k}}; }

TmaLayout LayoutOf(const MatmulProblem& problem, const Tile& tile) {
  const Sharing& s = tile.sharing;
  return {static_cast<int>(tile.m), static_cast<int>(tile.n),   static_cast<int>(problem.bs),
          static_cast<int>(s.down), static_cast<int>(s.across), static_cast<int>(s.split),
          problem.b_k_major};
}

// Whether the template can do that: registers for the sums, and no sides narrower than their lines.
bool Suits(const MatmulProblem& problem, const Tile& tile) {
  const bool at_once = LayoutOf(problem, tile).at_once() == problem.bs;
  return problem.bs * tile.n <= 256 && (problem.bs == 1 || (at_once && tile.n % 16 == 0)) &&
         (problem.bs == 1 || (problem.bs * tile.n) % 64 == 0) &&
         tile.sharing.split <= problem.Steps(kTmaTileK);
}

// Tiles of clusters.
int64_t ClusterTiles(const MatmulProblem& problem, const Tile& tile) {
  return problem.Tiles(tile.m * tile.sharing.down, tile.n * tile.sharing.across);
}

// Blocks of a part: as many as run at once, each with one tile after another; where they split K, one tile
// each.
int64_t Blocks(const MatmulProblem& problem, const Tile& tile, double processors) {
  const int64_t tiles = ClusterTiles(problem, tile), cluster = tile.sharing.blocks();
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(processors) / cluster);
  return (tile.sharing.split > 1 ? tiles : std::min(tiles, most)) * cluster;
}

// Stages that fit, 0 if too few do. The sums of a split K lie where the stages were.
int64_t Stages(const MatmulProblem& problem, const Tile& tile, const CudaTarget& target) {
  constexpr int64_t kMost = 12, kLeast = 3;
  const TmaLayout layout = LayoutOf(problem, tile);
  const int64_t split = tile.sharing.split, bytes = layout.stage(), sums = layout.sums();
  const int64_t fit = (static_cast<int64_t>(target.shared) - layout.besides_stages(kMost)) / bytes;
  const int64_t useful = split > 1 ? (problem.Steps(kTmaTileK) + split - 1) / split : kMost;
  const int64_t stages = std::min({fit, kMost, std::max({kLeast, useful, (sums + bytes - 1) / bytes})});
  return stages < kLeast || stages * bytes < sums ? 0 : stages;
}

// Cycles that a tile's step takes: bound by what is copied, by one multiprocessor or by all, or by what is
// multiplied. `blocks` are at work at once, on `device` of the GPU.
double StepCycles(const GpuTable& gpu, const MatmulProblem& problem, const Tile& tile, double blocks,
                  double device) {
  const Sharing& sharing = tile.sharing;
  const TmaLayout layout = LayoutOf(problem, tile);
  const double a = layout.a_bytes(), b = layout.b_count * layout.b_bytes();
  const double read = a / static_cast<double>(sharing.across) + b / static_cast<double>(sharing.down);
  const double copy = std::max((a + b) / gpu.l2_tma_bytes, read * blocks * device / gpu.l2_all_bytes);
  const bool shared = sharing.down * sharing.across > 1;
  const double area = static_cast<double>(tile.m * tile.n * problem.bs);
  const double multiply =
      area * static_cast<double>(kTmaTileK) / (shared ? gpu.wgmma_tma_shared : gpu.wgmma_tma);
  return std::max(copy, multiply);
}

// Cycles of a tile's epilogue, at one instruction a lane and cycle where there are warps enough, and of
// joining the blocks that split K.
double EndCycles(const GpuTable& gpu, const Part& part, const MatmulProblem& problem, const Tile& tile) {
  const double split = static_cast<double>(tile.sharing.split);
  const double points = static_cast<double>(tile.m * tile.n) / split;
  const double area = static_cast<double>(tile.m * tile.n * problem.bs);
  double end = points * EpilogueInstructions(gpu, part.epilogue) / gpu.tma_stored_lanes *
               (tile.m == 64 ? gpu.tma_one_group : 1);
  if (tile.sharing.split > 1)
    end += gpu.tma_split_start + gpu.tma_split_block * split + gpu.tma_split_point * area * (split - 1);
  return end;
}

// Cycles of the busiest multiprocessor.
double Cycles(const GpuTable& gpu, const PartContext& context, const MatmulProblem& problem,
              const Tile& tile) {
  const Sharing& sharing = tile.sharing;
  const double processors = context.Processors(), cluster = static_cast<double>(sharing.blocks());
  const double used = UsedByClusters(gpu, sharing.blocks());
  const double at_once = std::max(1.0, std::floor(used * processors / cluster));
  const double tiles = static_cast<double>(ClusterTiles(problem, tile));
  const double busiest = std::ceil(tiles / at_once);
  const double steps =
      std::ceil(static_cast<double>(problem.Steps(kTmaTileK)) / static_cast<double>(sharing.split));
  // Blocks at work at once, of which this part has its share of the device.
  const double blocks = std::min(tiles, at_once) * cluster, device = gpu.processors / processors;
  const double step = StepCycles(gpu, problem, tile, blocks, device);
  const double end = EndCycles(gpu, context.part, problem, tile);
  // All of B comes once from memory.
  const double memory = static_cast<double>(problem.batches * problem.n * problem.k * problem.bs * 2) /
                        (gpu.memory_bytes * std::min(1.0, processors / gpu.memory_processors));
  const bool shared = sharing.down * sharing.across > 1;
  return gpu.tma_start + (shared ? gpu.tma_cluster_start : 0) +
         std::max(memory, busiest * (steps * step + end));
}

std::optional<TmaOperands> OperandsOf(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  const DType type = part.operands[part.lhs].dtype;
  const bool fits = context.target.warp_groups && part.skeleton == Skeleton::kContraction &&
                    part.prologue.empty() && part.acc_type == TapeType::kF32 && Is16Bit(type) &&
                    part.operands[part.rhs[0]].dtype == type && problem.bs <= 2 && problem.a_k_major &&
                    problem.a_vector == 8 && problem.b_vector == 8 && problem.m > 16 && problem.n >= 32 &&
                    problem.k >= 64;
  return fits ? TmaOperandsOf(part, problem) : std::nullopt;
}

std::vector<MatmulCandidate> Candidates(const PartContext& context, const MatmulProblem& problem) {
  std::vector<MatmulCandidate> candidates;
  const std::optional<TmaOperands> sides = OperandsOf(context, problem);
  if (!sides) return candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  for (Tile tile : kTiles) {
    if (sides->m_run < problem.m && sides->m_run % tile.m != 0) continue;
    for (const Sharing& sharing : kSharings) {
      if (context.cluster != 0 && sharing.blocks() != static_cast<int64_t>(context.cluster)) continue;
      tile.sharing = sharing;
      if (!Suits(problem, tile) || Stages(problem, tile, context.target) == 0) continue;
      candidates.push_back({ConfigurationOf(tile), AmongOthers(gpu, Cycles(gpu, context, problem, tile))});
    }
  }
  return candidates;
}

// The maps of the sides, with the boxes that one block asks for.
std::vector<TensorMap> MapsOf(const MatmulProblem& problem, const TmaOperands& sides, const Tile& tile) {
  std::vector<TensorMap> maps = sides.maps;
  const TmaLayout layout = LayoutOf(problem, tile);
  for (TensorMap& map : maps)
    map.box[1] = static_cast<uint32_t>(map.rank == 5 ? layout.a_share() : layout.b_share());
  return maps;
}

Result<PartLaunch> Write(const PartContext& context, const MatmulProblem& problem,
                         const MatmulConfiguration& configuration, PartWriter* writer) {
  const Part& part = context.part;
  const Tile tile = TileOf(configuration);
  const Sharing& sharing = tile.sharing;
  const int64_t stages = Stages(problem, tile, context.target);
  const int64_t blocks = Blocks(problem, tile, context.Processors());
  const TmaOperands sides = *OperandsOf(context, problem);
  writer->Line("u32 batch = 0;");
  const int lanes = EpilogueLanes(part, problem);
  const TapeScope outer = writer->scope;
  const int words = WriteFetch(context, problem, lanes, writer);
  WriteEpilogue(context, problem, lanes, ", const u32* words", writer);
  writer->scope = outer;
  writer->Line(std::string("const TensorMap* const right[] = {&m1") + (problem.bs == 2 ? ", &m2" : "") +
               "};");
  writer->Line("matmul_tma<" + Text(tile.m) + ", " + Text(tile.n) + ", " + Text(stages) + ", " +
               Text(problem.bs) + ", " + Text(sharing.down) + ", " + Text(sharing.across) + ", " +
               Text(sharing.split) + ", " + Truth(problem.b_k_major) + ", " + Text(lanes) + ", " +
               Truth(part.operands[part.lhs].dtype == DType::kBF16) + ", " +
               Truth(AreConstant(context, part.rhs)) + ", " + Text(words) + ">(block, " + Text(blocks) +
               "u, " + Text(problem.m) + ", " + Text(problem.n) + ", " + Text(problem.k) + ", " +
               Text(problem.batches) + ", " + Text(sides.m_run) + ", " + Text(sides.k_run) +
               ", &m0, right, batch, fetch, finish);");
  PartLaunch launch;
  launch.tensor_maps = MapsOf(problem, sides, tile);
  launch.block = static_cast<uint32_t>(LayoutOf(problem, tile).threads());
  launch.shared = static_cast<uint32_t>(LayoutOf(problem, tile).shared(static_cast<int>(stages)));
  launch.cluster = static_cast<uint32_t>(sharing.blocks());
  return WithBlocks(launch, blocks);
}

std::vector<MatmulConfiguration> Tiles(const CudaTarget& target) {
  std::vector<MatmulConfiguration> tiles;
  if (!target.warp_groups) return tiles;
  for (Tile tile : kTiles) {
    for (const Sharing& sharing : kSharings) {
      tile.sharing = sharing;
      tiles.push_back(ConfigurationOf(tile));
    }
  }
  return tiles;
}

}  // namespace

constinit const MatmulTemplate kTmaMatmul = {MatmulFamily::kTma, kHeaders, Candidates, Write, Tiles};

}  // namespace rondo::cuda
