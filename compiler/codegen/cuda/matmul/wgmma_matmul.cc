// Matmuls of 16-bit types through tiles of two warpgroups by wgmma, copied by threads
// (device/matmul_wgmma.cuh): what TMA cannot bring.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_families.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_wgmma"};

constexpr MatmulConfiguration Tile(int64_t n) { return {MatmulFamily::kWgmma, kWgmmaTileM, n}; }
// Of tiles that cost the same, the first is taken.
constexpr MatmulConfiguration kTiles[] = {Tile(256), Tile(192), Tile(128), Tile(64)};

TileMatmul MatmulOf(const PartContext& context, const MatmulProblem& problem,
                    const MatmulConfiguration& configuration) {
  TileMatmul matmul = TileMatmulOf(context, problem, configuration);
  matmul.k = kWgmmaTileK;
  matmul.a_k_major = true;
  matmul.a_vector = HalfAVector(context, problem);
  return matmul;
}

// wgmma wants both operands in swizzled lines of 128 bytes, by vectors, and registers for its accumulators.
bool Suits(const PartContext& context, const MatmulProblem& problem) {
  const bool vectors = AIsMade(context.part) || (problem.a_k_major && problem.a_vector == 8);
  return context.target.warp_groups && problem.b_vector == 8 && vectors && SuitsHalfTiles(context, problem);
}

// Stages of copies that fit; none if too few do.
std::optional<int> Stages(const CudaTarget& target, const TileMatmul& matmul, int64_t own_steps) {
  constexpr int64_t kLeast = 4, kMost = 12;
  const TileLayout layout = matmul.wgmma_layout();
  const int64_t room = target.shared - layout.slack();
  const int64_t stages =
      std::min<int64_t>({room / layout.stage(), kMost, std::max<int64_t>(3, own_steps + 1)});
  if (layout.shared(0) > static_cast<int64_t>(target.shared) || stages < kLeast) return std::nullopt;
  return static_cast<int>(stages);
}

std::optional<StepCycles> StepOf(const PartContext& context, const MatmulProblem& problem,
                                 const TileCase& tile) {
  constexpr int kMostColumns = 256;  // of all B, whose accumulators registers hold
  const GpuTable& gpu = GpuTableOf(context.target);
  const TileMatmul matmul = MatmulOf(context, problem, tile.configuration);
  if (matmul.b_count * matmul.n > kMostColumns || !Stages(context.target, matmul, tile.own_steps))
    return std::nullopt;
  const double area = matmul.m * matmul.n * matmul.b_count;
  return StepCycles{matmul.wgmma_layout().stage() / gpu.l2_copy_bytes, area * matmul.k / gpu.wgmma};
}

std::vector<MatmulCandidate> Candidates(const PartContext& context, const MatmulProblem& problem) {
  if (!Suits(context, problem)) return {};
  return TileCandidates(context, problem, kTiles, kWgmmaTileK, StepOf);
}

Result<PartLaunch> Write(const PartContext& context, const MatmulProblem& problem,
                         const MatmulConfiguration& configuration, PartWriter* writer) {
  TileMatmul matmul = MatmulOf(context, problem, configuration);
  const TileCase tile = CaseOf(context, problem, kWgmmaTileK, configuration);
  matmul.stages = *Stages(context.target, matmul, tile.own_steps);
  return WriteTileMatmul(context, problem, "matmul_wgmma", matmul,
                         matmul.wgmma_layout().shared(matmul.stages), writer);
}

std::vector<MatmulConfiguration> Tiles(const CudaTarget& target) {
  if (!target.warp_groups) return {};
  return {std::begin(kTiles), std::end(kTiles)};
}

}  // namespace

constinit const MatmulTemplate kWgmmaMatmul = {MatmulFamily::kWgmma, kHeaders, Candidates, Write, Tiles};

}  // namespace rondo::cuda
