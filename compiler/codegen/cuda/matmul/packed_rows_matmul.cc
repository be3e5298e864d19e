// Matmuls of few rows with packed weights: TMA copies tiles, warpgroups unpack them in registers for wgmma,
// and the sums are multiplied by scales (device/packed_tiles_rows.cuh). There are two variants: `packed_rows`
// multiplies A in 16 bits by pairs; `packed_digits` multiplies A, as two 8-bit digits, by codes of 4 and 8
// bits.
#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/codegen/cuda/device/packed_tiles_layout.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/matmul/packed_operands.h"
#include "compiler/codegen/cuda/matmul/packed_tiles_text.h"
#include "compiler/codegen/cuda/matmul/tma_operands.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_packed_tiles"};

constexpr int64_t kMostRows = 32, kLeastRows = 5, kStageK = 128;
constexpr int64_t kLeastBlock = 32;  // for digits: the K of one instruction

// The number of 64-column tiles of a warpgroup, of warpgroups side by side along the columns, and of
// warpgroups that take turns with the steps.
struct Groups {
  int64_t tiles, columns, turns;
};
constexpr int64_t kMostTiles = 7;
// Each one with 1 to kMostTiles tiles. Without turns, all warpgroups would wait for the same stages at once.
constexpr Groups kGroups[] = {{0, 1, 4}, {0, 2, 2}, {0, 1, 3}, {0, 1, 2}};
constexpr int64_t kSplits[] = {1, 2, 4, 8};

KernelConfiguration ConfigurationOf(VariantId variant, int64_t rows, int64_t b_count, const Groups& groups,
                                    int64_t split) {
  KernelConfiguration configuration;
  configuration.variant = variant;
  configuration.m = (rows + 7) / 8 * 8;
  configuration.n = groups.tiles * groups.columns * 64 / b_count;
  configuration.k = kStageK;
  configuration.warps_m = groups.tiles;
  configuration.warps_n = groups.columns;
  configuration.warps_k = groups.turns;
  configuration.cluster = split;
  return configuration;
}

bool Suits(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  return context.target.warp_groups && part.skeleton == Skeleton::kMatMul && SuitsPacked(part, problem) &&
         part.acc_type == TapeType::kF32 && problem.b_count <= 4 && problem.m >= kLeastRows &&
         problem.m <= kMostRows && problem.n >= 16;
}

bool SuitsDigits(const Part& part) {
  const bool bytes = part.packed.type == PackedType::kU4 || part.packed.type == PackedType::kU8;
  return bytes && part.packed.block >= kLeastBlock;
}

// Everything except stages and prefetched words.
PackedTiles MatmulOf(const PartContext& context, const MatmulProblem& problem, bool a_made,
                     const KernelConfiguration& c) {
  PackedTiles matmul = PackedTilesOf(context, problem, a_made, c);
  matmul.split_k = static_cast<int>(c.cluster);
  matmul.warp_tiles = static_cast<int>(c.warps_m);
  matmul.turns = static_cast<int>(c.warps_k);
  matmul.digits = c.variant == VariantId::kPackedDigits;
  return matmul;
}

// About how many registers a thread needs.
int64_t RegistersNeeded(const PackedTiles& matmul) {
  const int64_t others = matmul.digits ? 66 : 50 + matmul.warp_tiles;
  const int64_t begun = matmul.digits ? 4 : 2;  // tiles whose accumulators are in flight
  return (matmul.warp_tiles + begun) * matmul.m / 2 + others;
}

int64_t Tiles(const MatmulProblem& problem, const PackedTiles& matmul) {
  return problem.Tiles(matmul.m, matmul.n);
}

// As many clusters as run at once, each with one tile after another. If they split K, one tile each.
int64_t Blocks(const PartContext& context, const MatmulProblem& problem, const PackedTiles& matmul) {
  const int64_t tiles = Tiles(problem, matmul);
  if (matmul.split_k > 1) return tiles * matmul.split_k;
  return std::min(tiles, std::max<int64_t>(1, static_cast<int64_t>(context.Processors())));
}

// The number of stages, 0 if too few fit: enough to keep memory busy, and more than half of a
// multiprocessor's shared memory, since two blocks on one multiprocessor would leave others idle. The
// accumulators of a split K reuse the stages' memory.
int Stages(const PartContext& context, const PackedTiles& matmul) {
  constexpr int64_t kMost = 32, kLeast = 3, kBytes = 114 << 10;
  const int64_t turns = matmul.turns, bytes = matmul.stage(), accumulators = matmul.accumulators();
  const auto shared = static_cast<int64_t>(context.target.shared);
  const int64_t fit = (shared - matmul.besides_stages(kMost)) / bytes;
  const int64_t least = std::max({kLeast, turns, (accumulators + bytes - 1) / bytes});
  const int64_t useful = (matmul.steps() + matmul.split_k - 1) / matmul.split_k;
  const int64_t wanted = std::max(least, std::min({kMost, useful, (kBytes + bytes - 1) / bytes}));
  // Warps that take turns have their own stages: each waits for every use of them.
  const int64_t stages = (wanted + turns - 1) / turns * turns;
  return stages > fit ? 0 : static_cast<int>(stages);
}

// A scheduler's cycles for 16 columns and 32 of K.
double UnitCycles(const GpuTable& gpu, const PackedTiles& matmul) {
  const double sums = matmul.m / 2.0;
  if (matmul.digits) return gpu.packed_digits_multiply + sums * gpu.packed_digits_sum * 32 / matmul.digit_k();
  const bool few_bits = matmul.format.type <= 3 && matmul.format.bits < 8;
  const double scale = matmul.by_column() ? 0 : sums * 32 / matmul.digit_k();
  return (few_bits ? gpu.packed_rows_unpack : gpu.packed_rows_unpack_bytes) + scale;
}

// Cycles of a step on one multiprocessor, which copies or unpacking and multiplying bound.
double StepCycles(const GpuTable& gpu, const PackedTiles& matmul, double used) {
  const double tiles = matmul.tiles() * matmul.stage_k / 32.0;  // of 16 columns and 32 of K
  const double bytes = matmul.a_bytes() + matmul.b_bytes();
  const double memory = matmul.b_bytes() / (gpu.memory_bytes / std::max(used, gpu.memory_processors));
  const double l2 = bytes / std::min(gpu.l2_tma_bytes, gpu.packed_l2_bytes / used);
  const double few_groups = matmul.multipliers() < 4 * 128 ? gpu.packed_rows_few_groups : 1;
  const double work = tiles / 4 * UnitCycles(gpu, matmul) * few_groups;
  // Making digits alternates with multiplying.
  const double made = matmul.digits ? std::ceil(matmul.m / 16.0) * gpu.packed_digits_make : 0;
  return std::max({memory, l2, work + made, gpu.packed_rows_step});
}

// Cycles of the busiest multiprocessor.
double Cycles(const PartContext& context, const MatmulProblem& problem, const PackedTiles& matmul) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const double split = matmul.split_k;
  const double at_once = std::max(1.0, std::floor(gpu.UsedBy(matmul.split_k) * context.Processors() / split));
  const auto tiles = static_cast<double>(Tiles(problem, matmul));
  const double rounds = std::ceil(tiles / at_once), steps = std::ceil(matmul.steps() / split);
  const double used = std::min(tiles, at_once) * split;
  const double points = static_cast<double>(matmul.turns) * matmul.m * matmul.n * matmul.b_count;
  const double join = split > 1 ? gpu.packed_rows_split + gpu.packed_rows_split_block * split : 0;
  const double end = gpu.packed_rows_end + gpu.packed_rows_point * points + join;
  const double start = gpu.packed_start + (matmul.digits ? gpu.packed_digits_start : 0);
  return start + rounds * (steps * StepCycles(gpu, matmul, used) + end);
}

std::vector<KernelCandidate> CandidatesOf(VariantId variant, const PartContext& context) {
  std::vector<KernelCandidate> candidates;
  if (!context.matmul || !Suits(context, *context.matmul)) return candidates;
  if (variant == VariantId::kPackedDigits && !SuitsDigits(context.part)) return candidates;
  const MatmulProblem& problem = *context.matmul;
  const auto offer = [&](const Groups& groups) {
    if (groups.tiles * groups.columns * 4 % problem.b_count != 0) return;
    for (int64_t split : kSplits) {
      const KernelConfiguration configuration =
          ConfigurationOf(variant, problem.m, problem.b_count, groups, split);
      if (context.cluster != 0 && configuration.cluster != static_cast<int64_t>(context.cluster)) continue;
      const bool a_made = !PackedTilesAMapOf(context, problem, configuration.m);
      if (a_made && variant == VariantId::kPackedDigits) continue;  // digits are made from A in memory
      const PackedTiles matmul = MatmulOf(context, problem, a_made, configuration);
      const bool shares = matmul.split_k * matmul.turns <= std::max(matmul.turns, matmul.steps());
      if (!shares || matmul.m % matmul.split_k != 0 || Stages(context, matmul) == 0) continue;
      if (RegistersNeeded(matmul) > RegistersOfThread(matmul.threads())) continue;
      candidates.push_back({configuration,
                            AmongOthers(GpuTableOf(context.target), Cycles(context, problem, matmul)),
                            BlockNeeds{static_cast<uint32_t>(matmul.threads()),
                                       static_cast<uint32_t>(RegistersNeeded(matmul))}});
    }
  };
  for (const Groups& groups : kGroups) {
    for (int64_t tiles = 1; tiles <= kMostTiles; ++tiles) offer({tiles, groups.columns, groups.turns});
  }
  return candidates;
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  return CandidatesOf(VariantId::kPackedRows, context);
}
std::vector<KernelCandidate> DigitsCandidates(const PartContext& context) {
  return CandidatesOf(VariantId::kPackedDigits, context);
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  const std::optional<TmaOperands> a = PackedTilesAMapOf(context, problem, configuration.m);
  PackedTiles matmul = MatmulOf(context, problem, !a, configuration);
  matmul.stages = Stages(context, matmul);
  return WritePackedTiles(context, matmul, a, Blocks(context, problem, matmul), 1, writer);
}

}  // namespace

constinit const KernelVariant kPackedRowsMatmul = {VariantId::kPackedRows, kHeaders, Candidates, Write};
constinit const KernelVariant kPackedDigitsMatmul = {VariantId::kPackedDigits, kHeaders, DigitsCandidates,
                                                     Write};

}  // namespace rondo::cuda
