// Matmuls of many rows with packed weights: warpgroups unpack the weights in registers, as operands of wgmma
// (device/matmul_packed_tiles.cuh).
#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/codegen/cuda/device/packed_tiles_layout.h"
#include "compiler/codegen/cuda/device/tma_layout.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/matmul/packed_operands.h"
#include "compiler/codegen/cuda/matmul/packed_tiles_text.h"
#include "compiler/codegen/cuda/matmul/tma_operands.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_packed_tiles"};

constexpr int64_t kMostStreamed = 4;  // up to so many rows, B is only streamed; for more, see PutStreamsFirst

struct Tile {
  int64_t m, n, k;
};
// The first of several tiles with the same cost is taken.
constexpr Tile kTiles[] = {{256, 128, 64},  {224, 128, 64},  {192, 128, 64},  {160, 128, 64}, {128, 128, 64},
                           {96, 128, 64},   {64, 128, 64},   {160, 192, 64},  {128, 192, 64}, {96, 192, 64},
                           {96, 256, 64},   {64, 256, 64},   {256, 64, 64},   {192, 64, 64},  {128, 64, 64},
                           {192, 128, 128}, {160, 128, 128}, {128, 128, 128}, {96, 128, 128}, {64, 128, 128},
                           {32, 128, 128},  {16, 128, 128},  {16, 64, 128},   {16, 256, 128}, {128, 192, 128},
                           {64, 192, 128},  {64, 256, 128},  {32, 256, 128},  {128, 64, 128}, {64, 64, 128},
                           {32, 64, 128}};
constexpr int64_t kLeastTile = 16;  // rows
// With fewer rows and a split K, packed_rows was always faster.
constexpr int64_t kLeastRowsSplit = 33;
constexpr int64_t kSplits[] = {1, 2, 4, 8};

KernelConfiguration ConfigurationOf(const Tile& tile, int64_t split) {
  KernelConfiguration configuration;
  configuration.variant = VariantId::kPackedTiles;
  configuration.m = tile.m;
  configuration.n = tile.n;
  configuration.k = tile.k;
  configuration.warps_m = configuration.warps_n = 1;
  configuration.warps_k = configuration.cluster = split;
  return configuration;
}

constexpr int64_t kRegisters = 65536;  // of a multiprocessor

// Registers of each thread with `resident` blocks on a multiprocessor.
int64_t RegistersOf(const PackedTiles& matmul, int64_t resident) {
  return RegistersOfThread((matmul.threads() + 127) / 128 * 128 * resident);
}
// Approximate registers that a thread needs; with fewer, wgmma instructions wait for each other.
int64_t RegistersNeeded(const PackedTiles& matmul) {
  constexpr int64_t kOthers = 36;
  return matmul.m / 2 + matmul.half_k() / 2 + kOthers;
}
// Registers of each multiplying thread after the copying threads have given theirs up.
int RegistersLeft(const PackedTiles& matmul) {
  const int64_t groups = matmul.groups(), launched = kRegisters / ((groups + 1) * 128) / 8 * 8;
  const int64_t left = ((groups + 1) * launched - kCopierRegisters) / groups / 8 * 8;
  constexpr int64_t kMost = 240;
  return static_cast<int>(std::min(left, kMost));
}

// Everything except stages and prefetched words.
PackedTiles MatmulOf(const PartContext& context, const MatmulProblem& problem, bool a_made,
                     const KernelConfiguration& c) {
  PackedTiles matmul = PackedTilesOf(context, problem, a_made, c);
  matmul.split_k = static_cast<int>(c.warps_k);
  matmul.turns = 1;
  // The parts of a kernel share one launch. Only a kernel of one part can redistribute its registers.
  if (!a_made && context.share == 1 && RegistersNeeded(matmul) > RegistersOf(matmul, 1))
    matmul.registers = RegistersLeft(matmul);
  return matmul;
}

bool Suits(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  return context.target.warp_groups && part.skeleton == Skeleton::kMatMul && SuitsPacked(part, problem) &&
         part.acc_type == TapeType::kF32 && problem.b_count <= 4 && problem.m > kMostStreamed &&
         problem.n >= 16;
}

// Whether half of a stage has whole words of codes, blocks that split K have steps, and the registers hold
// the accumulators and the unpacked weights.
bool Fits(const PackedTiles& matmul) {
  const int64_t registers = matmul.registers > 0 ? matmul.registers : RegistersOf(matmul, 1);
  return matmul.half_k() * matmul.format.bits >= 128 && matmul.split_k * 2 <= std::max(2, matmul.steps()) &&
         RegistersNeeded(matmul) <= registers;
}

int64_t ClusterTiles(const MatmulProblem& problem, const PackedTiles& matmul) {
  return problem.Tiles(matmul.m, matmul.n);
}

// Blocks that a multiprocessor holds at once. Small problems have several: each fills the gaps at the others'
// ends. It is 1 unless K is split, since the other blocks are persistent.
int64_t Resident(const MatmulProblem& problem, const PackedTiles& matmul, double processors) {
  constexpr int64_t kMost = 3, kMostRows = 64, kSlack = 24;
  if (matmul.split_k == 1 || matmul.m > kMostRows) return 1;
  const auto all = static_cast<double>(ClusterTiles(problem, matmul) * matmul.split_k);
  int64_t resident = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(all / processors)), 1, kMost);
  while (resident > 1 && RegistersOf(matmul, resident) < RegistersNeeded(matmul) + kSlack) --resident;
  return resident;
}

// As many clusters as run at once, each with one tile after another. If they split K, one tile each.
int64_t Blocks(const MatmulProblem& problem, const PackedTiles& matmul, double processors) {
  const int64_t tiles = ClusterTiles(problem, matmul);
  if (matmul.split_k > 1) return tiles * matmul.split_k;
  return std::min(tiles, std::max<int64_t>(1, static_cast<int64_t>(processors)));
}

// The number of stages that fit, 0 if too few. The accumulators of a split K reuse the stages' memory.
int Stages(const PartContext& context, const MatmulProblem& problem, const PackedTiles& matmul) {
  constexpr int64_t kMost = 32, kLeast = 3, kReserved = 1024;
  const CudaTarget& target = context.target;
  const int64_t split = matmul.split_k, bytes = matmul.stage(), accumulators = matmul.accumulators();
  const int64_t resident = Resident(problem, matmul, context.Processors());
  const int64_t shared = std::min<int64_t>(target.shared, target.shared_processor / resident - kReserved);
  const int64_t fit = (shared - matmul.besides_stages(kMost)) / bytes;
  const int64_t useful = (matmul.steps() + split - 1) / split;
  const int64_t stages =
      std::min({fit, kMost, std::max({kLeast, useful, (accumulators + bytes - 1) / bytes})});
  return stages < kLeast || stages * bytes < accumulators ? 0 : static_cast<int>(stages);
}

// Cycles of a stage of `resident` blocks on one multiprocessor. Copying, multiplying and unpacking bound
// them, and overlap only in part.
double StepCycles(const GpuTable& gpu, const PackedTiles& matmul, double resident) {
  constexpr double kPower = 2.5;
  const double copy = (matmul.a_bytes() + matmul.b_bytes()) * resident / gpu.l2_tma_bytes;
  // Half a stage: 16s of K of all warpgroups, and their multiplications.
  const double slices = matmul.groups() * resident * matmul.half_k() / 16.0;
  const double multiply = slices * matmul.m * 64 * 16 / gpu.wgmma_packed;
  const double unpack = gpu.unpack_start + gpu.unpack_slice * slices;
  return std::max(copy, 2 * std::pow(std::pow(multiply, kPower) + std::pow(unpack, kPower), 1 / kPower));
}

// Cycles of a tile's end: its epilogue, at one instruction for each lane and cycle if there are enough warps,
// and joining the blocks that split K.
double EndCycles(const GpuTable& gpu, const Part& part, const PackedTiles& matmul) {
  const double split = matmul.split_k, tile = matmul.m * matmul.n;
  const double end = gpu.packed_end + tile / split * EpilogueInstructions(gpu, part) /
                                          gpu.packed_stored_lanes *
                                          (matmul.groups() == 1 ? gpu.packed_one_group : 1);
  return split == 1
             ? end
             : end + gpu.packed_split_start + gpu.packed_split_point * tile * matmul.b_count * (split - 1);
}

// Cycles of the busiest multiprocessor.
double Cycles(const PartContext& context, const MatmulProblem& problem, const PackedTiles& matmul) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const double processors = context.Processors(), split = matmul.split_k;
  const auto resident = static_cast<double>(Resident(problem, matmul, processors));
  const double used = gpu.UsedBy(matmul.split_k);
  const double at_once = std::max(1.0, std::floor(used * processors * resident / split));
  const double tiles = static_cast<double>(ClusterTiles(problem, matmul));
  const double rounds = std::ceil(tiles / at_once), steps = std::ceil(matmul.steps() / split);
  const double blocks = std::min(tiles, at_once) * split;
  // All of B is read once from memory, as fast as the active blocks request it.
  const double bytes = static_cast<double>(problem.n * problem.k * problem.b_count * matmul.format.bits) / 8;
  const double memory = bytes / (gpu.memory_bytes * std::min(1.0, blocks / gpu.memory_processors));
  return gpu.packed_start + std::max(memory, rounds * (steps * StepCycles(gpu, matmul, resident) +
                                                       resident * EndCycles(gpu, context.part, matmul)));
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  std::vector<KernelCandidate> candidates;
  if (!context.matmul || !Suits(context, *context.matmul)) return candidates;
  const MatmulProblem& problem = *context.matmul;
  const std::optional<TmaOperands> a = PackedTilesAMapOf(context, problem, kLeastTile);
  for (const Tile& tile : kTiles) {
    if (a && a->m_run < problem.m && a->m_run % tile.m != 0) continue;
    for (int64_t split : kSplits) {
      if (split > 1 && problem.m < kLeastRowsSplit) continue;
      const KernelConfiguration configuration = ConfigurationOf(tile, split);
      if (context.cluster != 0 && configuration.cluster != static_cast<int64_t>(context.cluster)) continue;
      const PackedTiles matmul = MatmulOf(context, problem, !a, configuration);
      if (!Fits(matmul) || Stages(context, problem, matmul) == 0) continue;
      candidates.push_back({configuration,
                            AmongOthers(GpuTableOf(context.target), Cycles(context, problem, matmul)),
                            BlockNeeds{static_cast<uint32_t>(matmul.threads()),
                                       static_cast<uint32_t>(RegistersNeeded(matmul))}});
    }
  }
  return candidates;
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  const std::optional<TmaOperands> a = PackedTilesAMapOf(context, problem, kLeastTile);
  PackedTiles matmul = MatmulOf(context, problem, !a, configuration);
  matmul.stages = Stages(context, problem, matmul);
  return WritePackedTiles(context, matmul, a, Blocks(problem, matmul, context.Processors()),
                          Resident(problem, matmul, context.Processors()), writer);
}

std::vector<KernelConfiguration> Tiles(const CudaTarget& target) {
  std::vector<KernelConfiguration> tiles;
  if (!target.warp_groups) return tiles;
  for (const Tile& tile : kTiles) {
    for (int64_t split : kSplits) tiles.push_back(ConfigurationOf(tile, split));
  }
  return tiles;
}

}  // namespace

constinit const KernelVariant kPackedTilesMatmul = {VariantId::kPackedTiles, kHeaders, Candidates, Write,
                                                    Tiles};

}  // namespace rondo::cuda
