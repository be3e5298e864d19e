#include "compiler/codegen/cuda/matmul/block_tiles.h"

#include <algorithm>
#include <cmath>

#include "compiler/codegen/cuda/device/block_threads.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"

namespace rondo::cuda {

namespace {

constexpr size_t kMostCoordinates = 3;  // coordinates of a place in the device templates

// Whether K is so long that a tile pays for any number of points: the warps of a block and the blocks of a
// cluster split it, where other templates leave all of it to one thread, element after element.
bool IsLong(const PartContext& context, const MatmulProblem& problem) {
  constexpr int64_t kLong = 256;
  const bool convolution = context.part.skeleton == Skeleton::kConvolution;
  return problem.k >= kLong && (convolution || kDotMatmul.candidates(context).empty());
}

// A grouped convolution is many matmuls of few columns each. Even one column is enough for groups of several
// channels, which window_convolution.cc would read element by element. Many small matmuls (keys by values, in
// linear attention) are enough together.
bool IsEnough(const PartContext& context, const MatmulProblem& problem) {
  constexpr int64_t kSeveral = 8;
  const Part& part = context.part;
  if (IsLong(context, problem)) return true;
  const bool grouped = part.skeleton == Skeleton::kConvolution && problem.batches > 1;
  const bool several = grouped && part.loops[static_cast<size_t>(EpilogueLoops(part))] >= kSeveral;
  return problem.n >= (several   ? 1
                       : grouped ? 4
                                 : 8) &&
         problem.m * problem.n * (grouped || problem.m >= kSeveral ? problem.batches : 1) >= 1024;
}

// Whether tiles of A can be copied: absent elements must be zeros.
bool CanCopyA(const Part& part) {
  const Operand& lhs = part.operands[part.lhs];
  return Flatten(part, lhs).coordinates.size() <= kMostCoordinates && lhs.absent == 0;
}

// Numbers of blocks that may split K: no more than there are steps, unless the other parts have settled the
// cluster.
std::vector<int64_t> Clusters(const PartContext& context, int64_t steps) {
  if (context.cluster != 0) return {static_cast<int64_t>(context.cluster)};
  const int64_t most = context.target.clusters() ? 8 : 1;
  std::vector<int64_t> clusters = {1};
  for (int64_t cluster = 2; cluster <= most && cluster <= steps; cluster *= 2) clusters.push_back(cluster);
  return clusters;
}

// Writes the place of a block's tile, and the lambdas that copy tiles. Block numbers count the blocks of a
// cluster first, then tiles along M, tiles along N, batches.
void WriteTilePlaces(const PartContext& context, const MatmulProblem& problem, const TileMatmul& matmul,
                     PartWriter* writer) {
  const Part& part = context.part;
  const FlatOperand a = Flatten(part, part.operands[part.lhs]),
                    b = Flatten(part, part.operands[MatricesOf(part, problem)[0]]);
  const int64_t m_tiles = (problem.m + matmul.m - 1) / matmul.m,
                n_tiles = (problem.n + matmul.n - 1) / matmul.n;
  writer->Line("const u32 rank = block % " + Text(matmul.cluster) + "u, tile = block / " +
               Text(matmul.cluster) + "u;");
  writer->Line("const u32 m_tile = tile % " + Text(m_tiles) + "u, n_tile = tile / " + Text(m_tiles) + "u % " +
               Text(n_tiles) + "u, batch = tile / " + Text(m_tiles * n_tiles) + "u;");
  WritePlace("a_batch_place", problem.batch_loops, a, true, writer);
  WritePlace("a_m_place", problem.m_loops, a, false, writer);
  WritePlace("a_k_place", problem.k_loops, a, false, writer);
  WritePresent(a, writer);
  WriteAValue(context, problem, std::max(1, -matmul.a_vector), writer);
  WritePlace("b_batch_place", problem.batch_loops, b, false, writer);
  WritePlace("b_n_place", problem.n_loops, b, false, writer);
  WritePlace("b_k_place", problem.k_loops, b, false, writer);
  WriteBValue(context, problem, writer);
  writer->Line("const At a_batch = a_batch_place((int)batch);");
  writer->Line("auto a_row = [&](int m) { return a_batch + a_m_place(m); };");
  writer->Line("const i64 b_batch = b_batch_place((int)batch).a;");
  WriteBases(part, problem, "b_batch", writer);
}

}  // namespace

bool SuitsHalfTiles(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  const DType a = part.operands[part.lhs].dtype, b = part.operands[part.rhs[0]].dtype;
  const bool typed = part.acc_type == TapeType::kF32 && Is16Bit(b) && (!part.prologue.empty() || a == b);
  return typed && problem.b_count <= 2 && CanCopyA(part) && IsEnough(context, problem) && problem.k >= 16;
}

bool SuitsFloatTiles(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  const DType a = part.operands[part.lhs].dtype, b = part.operands[part.rhs[0]].dtype;
  const bool typed = part.acc_type == TapeType::kF32 && NaturalType(b) == TapeType::kF32 &&
                     (!part.prologue.empty() || NaturalType(a) == TapeType::kF32);
  return typed && problem.b_count <= 2 && CanCopyA(part) && problem.k >= 8 && IsEnough(context, problem);
}

bool AIsMade(const Part& part) {
  return !part.prologue.empty() || !part.operands[part.lhs].indirects.empty();
}

int ALanes(const PartContext& context, const MatmulProblem& problem) {
  constexpr int kLanes = 8;
  const Part& part = context.part;
  if (part.prologue.empty() || !problem.a_k_major) return 1;
  const size_t along = problem.k_loops.back();
  const std::vector<size_t> loads = Touched(part.prologue, TapeOp::kLoad);
  const bool fit = std::all_of(loads.begin(), loads.end(), [&](size_t index) {
    const Operand& operand = part.operands[index];
    return !MovesAlong(part, operand, along) ||
           (FitsLanes(context, index, along, kLanes) && operand.absent == 0);
  });
  return fit ? kLanes : 1;
}

int HalfAVector(const PartContext& context, const MatmulProblem& problem) {
  const int lanes = ALanes(context, problem);
  return lanes > 1 ? -lanes : AIsMade(context.part) ? 0 : problem.a_vector;
}

TileCase CaseOf(const PartContext& context, const MatmulProblem& problem, int64_t tile_k,
                const KernelConfiguration& configuration) {
  const int64_t cluster = configuration.cluster;
  return {configuration, BusiestBlocks(context, problem, configuration.m, configuration.n, cluster),
          (problem.Steps(tile_k) + cluster - 1) / cluster};
}

std::optional<TileRoom> RoomOf(const CudaTarget& target, const TileLayout& layout, const TileCase& tile) {
  constexpr int64_t kLeast = 3, kMost = 12,
                    kSharing = 128 * 128;  // points of the largest tile of which two fit
  const uint32_t resident = layout.m * layout.n * layout.b_count <= kSharing && tile.busiest > 1 ? 2 : 1;
  const int64_t room = resident == 1 ? target.shared : target.shared_processor / resident - 1024;
  const int64_t stages =
      std::min<int64_t>({room / layout.stage(), kMost, std::max<int64_t>(kLeast, tile.own_steps + 1)});
  if (layout.shared(0) > room || stages < kLeast) return std::nullopt;
  return TileRoom{static_cast<int>(stages), resident};
}

StepCycles MmaCycles(const GpuTable& gpu, const TileMatmul& matmul, const TileLayout& layout, double rate) {
  // With a larger tile for each warp, loads from shared memory take a smaller share of the time.
  const double area = matmul.m * matmul.n * matmul.b_count;
  const double own_area = area / (matmul.warps_m * matmul.warps_n);
  const double per_cycle = rate * gpu.mma * std::min(1.0, std::sqrt(own_area / gpu.mma_full));
  return {layout.stage() / gpu.l2_copy_bytes, area * matmul.k / per_cycle};
}

std::vector<KernelCandidate> TileCandidates(const PartContext& context, const MatmulProblem& problem,
                                            Span<const KernelConfiguration> tiles, int64_t tile_k,
                                            std::optional<StepCycles> (*step)(const PartContext& context,
                                                                              const MatmulProblem& problem,
                                                                              const TileCase& tile)) {
  std::vector<KernelCandidate> candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  for (KernelConfiguration configuration : tiles) {
    const int64_t own_k = configuration.k > 0 ? configuration.k : tile_k;
    for (int64_t cluster : Clusters(context, problem.Steps(own_k))) {
      configuration.cluster = cluster;
      const TileCase tile = CaseOf(context, problem, own_k, configuration);
      const std::optional<StepCycles> cycles = step(context, problem, tile);
      if (!cycles) continue;
      const TileBlock block = {tile.busiest,
                               static_cast<double>(tile.own_steps),
                               cycles->copy,
                               cycles->multiply,
                               static_cast<double>(configuration.m * configuration.n * problem.b_count),
                               cluster};
      candidates.push_back({configuration, AmongOthers(gpu, TileCycles(gpu, block))});
    }
  }
  return candidates;
}

TileMatmul TileMatmulOf(const PartContext& context, const MatmulProblem& problem,
                        const KernelConfiguration& configuration) {
  const auto number = [](int64_t n) { return static_cast<int>(n); };
  const Part& part = context.part;
  TileMatmul matmul = {};
  matmul.m = number(configuration.m);
  matmul.n = number(configuration.n);
  matmul.k = number(configuration.k);
  matmul.warps_m = number(configuration.warps_m);
  matmul.warps_n = number(configuration.warps_n);
  matmul.warps_k = number(configuration.warps_k);
  matmul.b_count = number(problem.b_count);
  matmul.cluster = number(configuration.cluster);
  matmul.a_k_major = problem.a_k_major;
  matmul.a_vector = AIsMade(part) ? 0 : problem.a_vector;
  matmul.b_k_major = problem.b_k_major;
  matmul.b_vector = problem.b_vector;
  // All threads with a few points are better than some threads with many.
  constexpr int kLeastLanes = 4;
  matmul.lanes = EpilogueLanes(part, problem);
  while (matmul.lanes > kLeastLanes && matmul.m * matmul.n / matmul.cluster < matmul.lanes * kBlockThreads)
    matmul.lanes /= 2;
  matmul.down = LiesDown(part, problem);
  matmul.bf16 = part.operands[part.rhs[0]].dtype == DType::kBF16;
  matmul.b_constant = AreConstant(context, part.rhs);
  matmul.sums = problem.adds_up >= 0;
  return matmul;
}

Result<PartLaunch> WriteTileMatmul(const PartContext& context, const MatmulProblem& problem,
                                   std::string_view device_template, const TileMatmul& matmul, int shared,
                                   PartWriter* writer, const std::string& more) {
  WriteTilePlaces(context, problem, matmul, writer);
  const std::optional<Tabulation> table = TabulationOf(context.part, context.part.epilogue);
  // Each part of a kernel may have a table.
  constexpr int64_t kRoom = 8 * PartWriter::kTableBytes;
  if (table && shared + kRoom <= static_cast<int64_t>(context.target.shared))
    writer->WriteTable(context.part.epilogue, *table);
  // Here accumulators leave enough registers.
  const bool fetches = device_template == "matmul_imma" && matmul.down == 0;
  if (fetches) WriteFetchOfColumns(context, problem, matmul.lanes, writer);
  WriteEpilogue(context, problem, matmul.lanes, "", writer);
  writer->scope.lanes.clear();
  const MatmulExtents extents = ExtentsOf(problem);
  writer->Line(std::string(device_template) + "<" + Aggregate("TileMatmul", matmul) + more +
               ">(m_tile, n_tile, rank, " + Aggregate("MatmulExtents", extents) + ", p" +
               Text(context.part.operands[context.part.lhs].param) +
               ", b, a_row, a_k_place, a_present, a_value, b_n_place, b_k_place, b_value, epilogue" +
               (fetches ? ", fetch" : "") + ");");
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(shared);
  launch.cluster = static_cast<uint32_t>(matmul.cluster);
  return WithBlocks(launch, problem.Tiles(matmul.m, matmul.n) * matmul.cluster);
}

}  // namespace rondo::cuda
