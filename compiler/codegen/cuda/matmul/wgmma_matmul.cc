// Matmuls by wgmma through tiles of two warpgroups that threads copy, for operands that TMA cannot copy.
// There are two variants: for 16-bit types (device/matmul_wgmma.cuh), and for FP8
// (device/matmul_wgmma_fp8.cuh), mainly convolutions.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

// One variant.
struct Wgmma {
  std::string_view name;  // of the device template and its header
  int64_t tile_k;         // K of one step
  int64_t step_stages;    // for blocks of few steps
  int most_columns;       // of every B together: registers must hold the accumulators
  uint32_t accumulators;  // registers of a thread for a pair of columns
  double relative_time;   // of one multiplication, relative to 16-bit types
  bool (*suits)(const PartContext& context, const MatmulProblem& problem);
  TileMatmul (*matmul)(const PartContext& context, const MatmulProblem& problem,
                       const KernelConfiguration& configuration);
  TileLayout (*layout)(const TileMatmul& matmul);
  std::string (*types)(const Part& part);  // the device template's type arguments, ", ..."
};

// wgmma needs both operands in swizzled lines of 128 bytes, copied as vectors.
bool SuitsHalves(const PartContext& context, const MatmulProblem& problem) {
  const bool vectors = AIsMade(context.part) || (problem.a_k_major && problem.a_vector == 8);
  return context.target.warp_groups && problem.b_vector == 8 && vectors && SuitsHalfTiles(context, problem);
}
TileMatmul HalvesOf(const PartContext& context, const MatmulProblem& problem,
                    const KernelConfiguration& configuration) {
  TileMatmul matmul = TileMatmulOf(context, problem, configuration);
  matmul.k = kWgmmaTileK;
  matmul.a_k_major = true;
  matmul.a_vector = HalfAVector(context, problem);
  return matmul;
}

// Whether lines of both operands run along K, copied as vectors, and there are enough for tiles of 128 rows.
bool SuitsFp8(const PartContext& context, const MatmulProblem& problem) {
  constexpr int64_t kMostB = 2;
  constexpr size_t kMostCoordinates = 3;  // coordinates of a place in the device templates
  constexpr int kLeastVector = 4;
  const Part& part = context.part;
  const Operand& a = part.operands[part.lhs];
  return context.target.warp_groups && part.acc_type == TapeType::kF32 && part.prologue.empty() &&
         IsFp8(a.dtype) && IsFp8(part.operands[part.rhs[0]].dtype) && a.absent == 0 && a.indirects.empty() &&
         Flatten(part, a).coordinates.size() <= kMostCoordinates && problem.a_k_major && problem.b_k_major &&
         problem.a_vector >= kLeastVector && problem.b_vector >= kLeastVector && problem.m > 16 &&
         problem.n >= 32 && problem.b_count <= kMostB;
}
TileMatmul Fp8Of(const PartContext& context, const MatmulProblem& problem,
                 const KernelConfiguration& configuration) {
  TileMatmul matmul = TileMatmulOf(context, problem, configuration);
  matmul.k = kWgmmaTileBytes;
  return matmul;
}
std::string Fp8Types(const Part& part) {
  std::string types;
  for (uint16_t operand : {part.lhs, part.rhs[0]})
    types += part.operands[operand].dtype == DType::kE5M2 ? ", true" : ", false";
  return types;
}

constexpr Wgmma kHalves = {"matmul_wgmma",
                           kWgmmaTileK,
                           3,
                           256,
                           1,
                           1,
                           SuitsHalves,
                           HalvesOf,
                           [](const TileMatmul& matmul) { return matmul.wgmma_layout(); },
                           [](const Part&) { return std::string(); }};
// Each column has two accumulators. An instruction takes as long as one for 16-bit types of half as many
// elements.
constexpr Wgmma kFp8 = {"matmul_wgmma_fp8",
                        kWgmmaTileBytes,
                        4,
                        160,
                        2,
                        0.5,
                        SuitsFp8,
                        Fp8Of,
                        [](const TileMatmul& matmul) { return matmul.wgmma_byte_layout(); },
                        Fp8Types};

// The number of stages that fit; none if too few.
std::optional<int> Stages(const CudaTarget& target, const Wgmma& wgmma, const TileMatmul& matmul,
                          int64_t own_steps) {
  constexpr int64_t kLeast = 4, kMost = 12;
  const TileLayout layout = wgmma.layout(matmul);
  const int64_t room = target.shared - layout.slack();
  const int64_t stages =
      std::min<int64_t>({room / layout.stage(), kMost, std::max<int64_t>(wgmma.step_stages, own_steps + 1)});
  if (layout.shared(0) > static_cast<int64_t>(target.shared) || stages < kLeast) return std::nullopt;
  return static_cast<int>(stages);
}

template <const Wgmma& WGMMA>
std::optional<StepCycles> StepOf(const PartContext& context, const MatmulProblem& problem,
                                 const TileCase& tile) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const TileMatmul matmul = WGMMA.matmul(context, problem, tile.configuration);
  if (matmul.b_count * matmul.n > WGMMA.most_columns ||
      !Stages(context.target, WGMMA, matmul, tile.own_steps))
    return std::nullopt;
  const double area = matmul.m * matmul.n * matmul.b_count;
  return StepCycles{WGMMA.layout(matmul).stage() / gpu.l2_copy_bytes,
                    area * matmul.k * WGMMA.relative_time / gpu.wgmma};
}

template <const Wgmma& WGMMA>
Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  TileMatmul matmul = WGMMA.matmul(context, problem, configuration);
  const TileCase tile = CaseOf(context, problem, WGMMA.tile_k, configuration);
  matmul.stages = *Stages(context.target, WGMMA, matmul, tile.own_steps);
  return WriteTileMatmul(context, problem, WGMMA.name, matmul, WGMMA.layout(matmul).shared(matmul.stages),
                         writer, WGMMA.types(context.part));
}

constexpr KernelConfiguration Tile(VariantId variant, int64_t n) { return {variant, kWgmmaTileM, n}; }
constexpr KernelConfiguration HalfTile(int64_t n) { return Tile(VariantId::kWgmma, n); }
constexpr KernelConfiguration Fp8Tile(int64_t n) { return Tile(VariantId::kWgmmaFp8, n); }
// The first of several tiles with the same cost is taken.
constexpr KernelConfiguration kHalfTiles[] = {HalfTile(256), HalfTile(192), HalfTile(128), HalfTile(64)};
constexpr KernelConfiguration kFp8Tiles[] = {Fp8Tile(160), Fp8Tile(128), Fp8Tile(96), Fp8Tile(64)};

template <const Wgmma& WGMMA, const auto& TILES>
std::vector<KernelCandidate> Candidates(const PartContext& context) {
  if (!context.matmul || !WGMMA.suits(context, *context.matmul)) return {};
  std::vector<KernelCandidate> candidates =
      TileCandidates(context, *context.matmul, TILES, WGMMA.tile_k, StepOf<WGMMA>);
  for (KernelCandidate& one : candidates) {
    const auto columns = static_cast<uint32_t>(one.configuration.n * context.matmul->b_count);
    one.block.registers = columns / 2 * WGMMA.accumulators + 32;
  }
  return candidates;
}
template <const auto& TILES>
std::vector<KernelConfiguration> Tiles(const CudaTarget& target) {
  if (!target.warp_groups) return {};
  return {std::begin(TILES), std::end(TILES)};
}

}  // namespace

constinit const KernelVariant kWgmmaMatmul = {VariantId::kWgmma,
                                              {&kHalves.name, 1},
                                              Candidates<kHalves, kHalfTiles>,
                                              Write<kHalves>,
                                              Tiles<kHalfTiles>};
constinit const KernelVariant kWgmmaFp8Matmul = {
    VariantId::kWgmmaFp8, {&kFp8.name, 1}, Candidates<kFp8, kFp8Tiles>, Write<kFp8>, Tiles<kFp8Tiles>};

}  // namespace rondo::cuda
