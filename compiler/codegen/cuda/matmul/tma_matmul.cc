// Matmuls with tiles copied by TMA and multiplied by wgmma (device/matmul_tma.cuh): one warp requests tiles,
// and one or two warpgroups multiply them, tile after tile. Or warpgroups take tiles in turn (ping-pong): the
// tensor cores multiply one tile while another goes through its epilogue.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "compiler/codegen/cuda/device/tma_layout.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/matmul/tma_operands.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_tma"};

// The blocks of a cluster: along M, sharing tiles of B; along N, sharing tiles of A; and splitting K.
struct Cluster {
  int64_t m, n, k;
};
struct Tile {
  int64_t m, n;
};

// What a variant supports. The first of several tiles with the same cost is taken.
struct Shapes {
  VariantId variant;
  int turns;  // TmaMatmul::turns
  Span<const Tile> tiles;
  Span<const Cluster> clusters;
};
constexpr Tile kTiles[] = {{128, 256}, {128, 240}, {128, 224}, {128, 208}, {128, 192}, {128, 176},
                           {128, 160}, {128, 144}, {128, 128}, {128, 112}, {128, 96},  {128, 80},
                           {128, 64},  {64, 256},  {64, 224},  {64, 208},  {64, 192},  {64, 176},
                           {64, 160},  {64, 128},  {64, 112},  {64, 96},   {64, 80},   {64, 64}};
constexpr Cluster kClusters[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {1, 1, 4}, {1, 1, 8}};
constexpr Shapes kTogether = {VariantId::kTma, 1, kTiles, kClusters};
// With 128 rows there are twice as many warpgroups.
constexpr Tile kTurnTiles[] = {{128, 128}, {128, 112}, {64, 256}, {64, 224}, {64, 208}, {64, 192}, {64, 160}};
constexpr Cluster kTurnClusters[] = {{1, 1, 1}, {1, 2, 1}, {2, 1, 1}};
constexpr Shapes kInTurn = {VariantId::kPingPong, 2, kTurnTiles, kTurnClusters};

const Shapes& ShapesOf(const KernelConfiguration& configuration) {
  return configuration.variant == VariantId::kPingPong ? kInTurn : kTogether;
}

KernelConfiguration ConfigurationOf(const Shapes& shapes, const Tile& tile, const Cluster& cluster) {
  KernelConfiguration configuration;
  configuration.variant = shapes.variant;
  configuration.m = tile.m;
  configuration.n = tile.n;
  configuration.warps_m = cluster.m;
  configuration.warps_n = cluster.n;
  configuration.warps_k = cluster.k;
  configuration.cluster = cluster.m * cluster.n * cluster.k;
  return configuration;
}

int FactorsOf(DType a, DType b) {
  if (!IsFp8(a)) return a == DType::kBF16 ? kTmaBF16 : kTmaF16;
  if (a == b) return a == DType::kE4M3 ? kTmaE4M3 : kTmaE5M2;
  return a == DType::kE4M3 ? kTmaE4M3E5M2 : kTmaE5M2E4M3;
}

// The problem in the template's units: for FP8, K counts pairs.
MatmulProblem Counted(const PartContext& context) {
  MatmulProblem problem = *context.matmul;
  if (IsFp8(context.part.operands[context.part.lhs].dtype)) problem.k /= 2;
  return problem;
}

// Whether TMA can store the results of tiles with so many columns.
bool HasBoxes(const Part& part, const MatmulProblem& problem, int columns) {
  const std::optional<TmaResults> results = TmaResultsOf(part, problem);
  return results && (columns % 32 == 0 || results->runs.n == problem.n);
}

// Everything except stages and what is read ahead.
TmaMatmul MatmulOf(const PartContext& context, const MatmulProblem& problem, const KernelConfiguration& c) {
  const Part& part = context.part;
  TmaMatmul matmul = {};
  matmul.m = static_cast<int>(c.m);
  matmul.n = static_cast<int>(c.n);
  matmul.b_count = static_cast<int>(problem.b_count);
  matmul.cluster_m = static_cast<int>(c.warps_m);
  matmul.cluster_n = static_cast<int>(c.warps_n);
  matmul.split_k = static_cast<int>(c.warps_k);
  matmul.b_k_major = problem.b_k_major;
  matmul.lanes = EpilogueLanes(part, problem);
  matmul.factors = FactorsOf(part.operands[part.lhs].dtype, part.operands[part.rhs[0]].dtype);
  matmul.down = LiesDown(part, problem);
  matmul.turns = ShapesOf(c).turns;
  matmul.boxed = matmul.turns == 1 && matmul.split_k == 1 && matmul.lanes == 8 && !matmul.down &&
                 HasBoxes(part, problem, matmul.n);
  return matmul;
}

// Accumulators (of FP8 those of a stage, too), and some 32 registers for the rest.
BlockNeeds NeedsOf(const TmaMatmul& matmul) {
  const int columns = matmul.b_count * matmul.n;
  return {static_cast<uint32_t>(matmul.threads()),
          static_cast<uint32_t>((matmul.fp8() ? columns : columns / 2) + 32)};
}

// Whether the template supports this: registers hold the accumulators, and no tile is narrower than its
// lines.
bool Suits(const MatmulProblem& problem, const TmaMatmul& matmul) {
  // For FP8, a stage's sums have registers of their own.
  const int columns = matmul.b_count * matmul.n, most = matmul.fp8() ? 160 : matmul.groups() > 2 ? 128 : 256;
  const bool together = matmul.at_once() == matmul.b_count;
  // Lines along N come in panels of 64 columns, of which a tile may use half.
  if (!matmul.b_k_major && matmul.n % 32 != 0) return false;
  return columns <= most && (!matmul.fp8() || columns % 32 == 0) && (matmul.b_count == 1 || together) &&
         matmul.split_k <= problem.Steps(kTmaTileK);
}

// Tiles, in units of clusters.
int64_t ClusterTiles(const MatmulProblem& problem, const TmaMatmul& matmul) {
  return problem.Tiles(matmul.m * matmul.cluster_m, matmul.n * matmul.cluster_n);
}

// Blocks of a part: as many as run at once, each with one tile after another. If they split K, one tile each.
int64_t Blocks(const MatmulProblem& problem, const TmaMatmul& matmul, double processors) {
  const int64_t tiles = ClusterTiles(problem, matmul);
  const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(processors) / matmul.cluster());
  return (matmul.split_k > 1 ? tiles : std::min(tiles, most)) * matmul.cluster();
}

// The number of stages that fit, 0 if too few. The accumulators of a split K reuse the stages' memory.
int Stages(const MatmulProblem& problem, const TmaMatmul& matmul, const CudaTarget& target) {
  constexpr int64_t kMost = 12, kLeast = 3;
  const int64_t split = matmul.split_k, bytes = matmul.stage(), accumulators = matmul.accumulators();
  const int64_t fit = (static_cast<int64_t>(target.shared) - matmul.besides_stages(kMost)) / bytes;
  const int64_t useful = split > 1 ? (problem.Steps(kTmaTileK) + split - 1) / split : kMost;
  const int64_t stages =
      std::min({fit, kMost, std::max({kLeast, useful, (accumulators + bytes - 1) / bytes})});
  return stages < kLeast || stages * bytes < accumulators ? 0 : static_cast<int>(stages);
}

// Stages of B to ask for before the kernels ahead are complete. Where B is most of what is read, all of them:
// while those kernels end, memory has little else to do (BERT-base of 128 rows 272 us, with two stages 285;
// of 512 rows 399 and 403). Elsewhere the first tile of A would wait behind them (1,024 rows 567 and 537).
int EarlyStages(const PartContext& context, const MatmulProblem& problem, const TmaMatmul& matmul) {
  constexpr int64_t kFewRows = 512;
  if (!AreConstant(context, context.part.rhs)) return 0;
  return problem.m <= kFewRows ? matmul.stages : 2;
}

// Cycles of a tile's step, which are bound by one multiprocessor's copies, by all copies, or by multiplying;
// the one delays the other where they are nearly equal. `blocks` run at once, on the share `device` of the
// GPU.
double StepCyclesOf(const GpuTable& gpu, const TmaMatmul& matmul, double blocks, double device) {
  const double a = matmul.a_bytes(), b = matmul.b_count * matmul.b_bytes();
  const double read = a / matmul.cluster_n + b / matmul.cluster_m;
  const double copy = std::max((a + b) / gpu.l2_tma_bytes, read * blocks * device / gpu.l2_all_bytes);
  const double multiply = double{kTmaTileK} * matmul.m * matmul.n * matmul.b_count / gpu.wgmma_tma;
  const double sharpness = gpu.tma_sharpness;
  return std::pow(std::pow(copy, sharpness) + std::pow(multiply, sharpness), 1 / sharpness);
}

// Cycles of a tile's epilogue: its instructions, what it reads (of all rows: the rest stays in caches), and
// joining the blocks that split K.
double EndCycles(const GpuTable& gpu, const Part& part, const MatmulProblem& problem,
                 const TmaMatmul& matmul) {
  const double split = matmul.split_k, tile = matmul.m * matmul.n;
  double bytes = 0;  // of a point
  for (const TapeInst& inst : part.epilogue) {
    if (inst.op == TapeOp::kLoad && MovesAlong(part, part.operands[inst.arg], problem.m_loops.back()))
      bytes += static_cast<double>(ByteSize(part.operands[inst.arg].dtype));
  }
  const double instructions = EpilogueInstructions(gpu, part) / gpu.tma_stored_lanes *
                              (matmul.tile_groups() == 1 ? gpu.tma_one_group : 1) *
                              (matmul.boxed ? 1 : gpu.tma_not_boxed);
  const double end = tile / split * (instructions + bytes / gpu.tma_read_bytes) *
                     (matmul.half_box() ? 1 + gpu.tma_half_box : 1);
  if (matmul.split_k == 1) return end;
  return end + gpu.tma_split_start + gpu.tma_split_point * tile * matmul.b_count * (split - 1);
}

// Cycles of the busiest multiprocessor.
double Cycles(const GpuTable& gpu, const PartContext& context, const MatmulProblem& problem,
              const TmaMatmul& matmul) {
  const double processors = context.Processors(), cluster = matmul.cluster();
  const double used = gpu.UsedBy(matmul.cluster());
  const double at_once = std::max(1.0, std::floor(used * processors / cluster));
  const double tiles = static_cast<double>(ClusterTiles(problem, matmul));
  const double busiest = std::ceil(tiles / at_once);
  const double steps = std::ceil(static_cast<double>(problem.Steps(kTmaTileK)) / matmul.split_k);
  // Blocks that run at once; this part has its share of the device.
  const double blocks = std::min(tiles, at_once) * cluster, device = gpu.processors / processors;
  const double step = StepCyclesOf(gpu, matmul, blocks, device);
  const double end = EndCycles(gpu, context.part, problem, matmul);
  // All of B is read once from memory.
  const double memory = static_cast<double>(problem.batches * problem.n * problem.k * problem.b_count * 2) /
                        (gpu.memory_bytes * std::min(1.0, processors / gpu.memory_processors));
  const bool shared = matmul.cluster_m * matmul.cluster_n > 1;
  // With turns, one set of warpgroups multiplies at a time, and each set needs time for its tiles and their
  // epilogues.
  const double turns = matmul.turns, main = steps * step + (turns > 1 ? gpu.tma_turn : 0);
  const double each = std::max(main, (main + end) / turns);
  const double work = (busiest - 1) * each + main + end;
  // The longer decides, and the other delays it the more, the nearer it comes (33 rows by 4,096 x 11,008, all
  // bound by memory: tiles of 128 x 224 in two parts 37 us, of 64 x 192 25).
  const double both = std::sqrt(std::hypot(memory * memory, work * work));
  return gpu.tma_start + (shared ? gpu.tma_cluster_start : 0) + both;
}

std::optional<TmaOperands> OperandsOf(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  const DType a = part.operands[part.lhs].dtype, b = part.operands[part.rhs[0]].dtype;
  const bool half = Is16Bit(a) && a == b, fp8 = IsFp8(a) && IsFp8(b) && problem.b_k_major;
  const int vector = static_cast<int>(16 / ByteSize(a));
  const bool fits = context.target.warp_groups && part.skeleton == Skeleton::kMatMul &&
                    part.prologue.empty() && part.acc_type == TapeType::kF32 && (half || fp8) &&
                    problem.b_count <= 2 && problem.a_k_major && problem.a_vector == vector &&
                    problem.b_vector == vector && problem.m > 16 && problem.n >= 32 &&
                    problem.k >= (fp8 ? kTmaTileK / 2 : kTmaTileK);
  return fits ? TmaOperandsOf(part, problem) : std::nullopt;
}

template <const Shapes& kShapes>
std::vector<KernelCandidate> Candidates(const PartContext& context) {
  if (!context.matmul) return {};
  const MatmulProblem problem = Counted(context);
  std::vector<KernelCandidate> candidates;
  const std::optional<TmaOperands> operands = OperandsOf(context, problem);
  if (!operands) return candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  for (const Tile& tile : kShapes.tiles) {
    if (operands->m_run < problem.m && operands->m_run % tile.m != 0) continue;
    for (const Cluster& cluster : kShapes.clusters) {
      const KernelConfiguration configuration = ConfigurationOf(kShapes, tile, cluster);
      if (context.cluster != 0 && configuration.cluster != static_cast<int64_t>(context.cluster)) continue;
      const TmaMatmul matmul = MatmulOf(context, problem, configuration);
      if (!Suits(problem, matmul) || Stages(problem, matmul, context.target) == 0) continue;
      candidates.push_back(
          {configuration, TmaAmongOthers(gpu, Cycles(gpu, context, problem, matmul)), NeedsOf(matmul)});
    }
  }
  return candidates;
}

// A map of narrower boxes, as shared memory has them.
TensorMap WithColumns(TensorMap map, int columns) {
  map.box[0] = static_cast<uint32_t>(columns);
  map.swizzle = static_cast<uint32_t>(columns) * 2;
  return map;
}

TensorMap WithLines(TensorMap map, int64_t lines) {
  map.box[1] = static_cast<uint32_t>(lines);
  return map;
}

// The maps of A and B, with the boxes that one block requests.
std::vector<TensorMap> MapsOf(const TmaOperands& operands, const TmaMatmul& matmul) {
  std::vector<TensorMap> maps = operands.maps;
  for (TensorMap& map : maps)
    map.box[1] = static_cast<uint32_t>(map.rank == 5 ? matmul.a_share() : matmul.b_share());
  return maps;
}

TmaExtents TmaExtentsOf(const MatmulProblem& problem, const TmaOperands& operands) {
  const MatmulExtents extents = ExtentsOf(problem);
  return {extents.m,
          extents.n,
          extents.k,
          static_cast<int>(problem.batches),
          static_cast<int>(operands.m_run),
          static_cast<int>(operands.k_run)};
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem problem = Counted(context);
  TmaMatmul matmul = MatmulOf(context, problem, configuration);
  matmul.stages = Stages(problem, matmul, context.target);
  matmul.early = EarlyStages(context, problem, matmul);
  const std::optional<TmaResults> results = TmaResultsOf(context.part, problem);
  const TmaRuns runs = matmul.boxed ? results->runs : TmaRuns{1, 1};
  const int64_t blocks = Blocks(problem, matmul, context.Processors());
  const TmaOperands operands = *OperandsOf(context, problem);
  writer->Line("u32 batch = 0;");
  const TapeScope outer = writer->scope;
  // Accumulators and what else is needed while they are summed; the rest may hold words.
  constexpr int kSpareRegisters = 64;
  const int registers = static_cast<int>(RegistersOfThread(matmul.threads())) - matmul.b_count * matmul.n / 2;
  matmul.registers = std::max(0, registers - kSpareRegisters);
  const int most = matmul.groups() > 2 ? 4 : 16;
  if (matmul.boxed) {
    const FetchedWords fetched = WriteFetchOfPairs(context, problem, most, writer);
    matmul.words = fetched.words;
    matmul.of_columns = fetched.columns;
    matmul.registers = std::max(0, matmul.registers - matmul.of_columns * matmul.n / 8);
    writer->scope.held.assign(context.part.operands.size(), "");
    writer->scope.held[results->operand] = "result";
    WriteEpilogue(context, problem, 2, ", const u32* words, const u32* columns, u32* result", writer);
  } else {
    matmul.words = WriteFetch(context, problem, matmul.lanes, most, writer);
    WriteEpilogue(context, problem, matmul.lanes, ", const u32* words", writer);
  }
  writer->scope = outer;
  PartLaunch launch;
  launch.tensor_maps = MapsOf(operands, matmul);
  const auto add = [&](const TensorMap& map) {
    launch.tensor_maps.push_back(map);
    return "&m" + Text(launch.tensor_maps.size() - 1);
  };
  // Another map for the last share of lines, if they are fewer.
  const auto rest = [&](size_t map, int64_t lines, int share) -> std::string {
    return lines % share == 0 ? "nullptr" : add(WithLines(launch.tensor_maps[map], lines % share));
  };
  std::string b = "&m1", out = "nullptr", half_out = "nullptr";
  const int64_t b_lines = matmul.b_k_major ? problem.n : 0;
  const std::string a_rest = rest(0, problem.m, matmul.a_share());
  std::string b_rest = rest(1, b_lines, matmul.b_share());
  if (problem.b_count == 2) {
    b += ", &m2";
    b_rest += ", " + rest(2, b_lines, matmul.b_share());
  }
  writer->Line("const TensorMap* const b[] = {" + b + "}, * const b_rest[] = {" + b_rest + "};");
  if (matmul.boxed) out = add(WithColumns(results->map, matmul.narrow()));
  if (matmul.half_box()) half_out = add(WithColumns(results->map, 16));
  writer->Line("matmul_tma<" + Aggregate("TmaMatmul", matmul) + ">(block, " + Text(blocks) + "u, " +
               Aggregate("TmaExtents", TmaExtentsOf(problem, operands)) + ", &m0, b, " + a_rest +
               ", b_rest, " + out + ", " + half_out + ", " + Aggregate("TmaRuns", runs) + ", batch, fetch, " +
               (matmul.boxed ? "fetch_columns" : "nullptr") + ", epilogue);");
  launch.block = static_cast<uint32_t>(matmul.threads());
  launch.shared = static_cast<uint32_t>(matmul.shared());
  launch.cluster = static_cast<uint32_t>(matmul.cluster());
  return WithBlocks(launch, blocks);
}

template <const Shapes& kShapes>
std::vector<KernelConfiguration> Tiles(const CudaTarget& target) {
  std::vector<KernelConfiguration> tiles;
  if (!target.warp_groups) return tiles;
  for (const Tile& tile : kShapes.tiles) {
    for (const Cluster& cluster : kShapes.clusters) tiles.push_back(ConfigurationOf(kShapes, tile, cluster));
  }
  return tiles;
}

}  // namespace

constinit const KernelVariant kTmaMatmul = {VariantId::kTma, kHeaders, Candidates<kTogether>, Write,
                                            Tiles<kTogether>};
constinit const KernelVariant kPingPongMatmul = {VariantId::kPingPong, kHeaders, Candidates<kInTurn>, Write,
                                                 Tiles<kInTurn>};

}  // namespace rondo::cuda
