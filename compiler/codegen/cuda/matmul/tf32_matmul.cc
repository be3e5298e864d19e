// Matmuls of f32 operands that may be rounded to tf32 (device/matmul_tf32.cuh).
#include <algorithm>
#include <cmath>
#include <optional>

#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_tf32"};

constexpr KernelConfiguration Tile(int64_t m, int64_t n) { return {VariantId::kTf32, m, n}; }
// The first of several tiles with the same cost is taken.
constexpr KernelConfiguration kTiles[] = {Tile(128, 128), Tile(128, 64), Tile(64, 128),
                                          Tile(64, 64),   Tile(32, 64),  Tile(32, 32)};

// 8 warps, with more of them along the longer extent.
TileMatmul MatmulOf(const PartContext& context, const MatmulProblem& problem,
                    const KernelConfiguration& configuration) {
  TileMatmul matmul = TileMatmulOf(context, problem, configuration);
  matmul.k = kFloatTileK;
  matmul.warps_m = matmul.m > matmul.n ? 4 : 2;
  matmul.warps_n = 8 / matmul.warps_m;
  matmul.stages = kFloatStages;
  return matmul;
}

// The cost as for 16-bit tiles, at half the rate at most: fragments are loaded element by element.
std::optional<StepCycles> StepOf(const PartContext& context, const MatmulProblem& problem,
                                 const TileCase& tile) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const TileMatmul matmul = MatmulOf(context, problem, tile.configuration);
  const TileLayout layout = matmul.float_layout();
  if (layout.shared(matmul.stages) > static_cast<int>(context.target.shared)) return std::nullopt;
  const double area = matmul.m * matmul.n * matmul.b_count;
  const double own_area = area / (matmul.warps_m * matmul.warps_n);
  const double rate = gpu.tf32 * std::min(1.0, std::sqrt(own_area / gpu.mma_full));
  return StepCycles{layout.stage() / gpu.l2_copy_bytes, area * matmul.k / rate};
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  if (!context.matmul) return {};
  const MatmulProblem& problem = *context.matmul;
  const Part& part = context.part;
  const DType a = part.operands[part.lhs].dtype, b = part.operands[part.rhs[0]].dtype;
  if (!part.tf32 || b != DType::kF32 || (part.prologue.empty() && a != DType::kF32) ||
      !SuitsFloatTiles(context, problem))
    return {};
  return TileCandidates(context, problem, kTiles, kFloatTileK, StepOf);
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  const TileMatmul matmul = MatmulOf(context, problem, configuration);
  return WriteTileMatmul(context, problem, "matmul_tf32", matmul, matmul.float_layout().shared(matmul.stages),
                         writer);
}

}  // namespace

constinit const KernelVariant kTf32Matmul = {VariantId::kTf32, kHeaders, Candidates, Write};

}  // namespace rondo::cuda
