// Matmuls in f32 by FMA, through square tiles (device/matmul_simt.cuh).
#include <optional>

#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_simt"};

constexpr KernelConfiguration kTiles[] = {{VariantId::kSimt, 64, 64}, {VariantId::kSimt, 32, 32}};

// Operands of other types are widened element by element.
TileMatmul MatmulOf(const PartContext& context, const MatmulProblem& problem,
                    const KernelConfiguration& configuration) {
  const Part& part = context.part;
  TileMatmul matmul = TileMatmulOf(context, problem, configuration);
  matmul.k = kFloatTileK;
  matmul.stages = kFloatStages;
  if (part.operands[part.lhs].dtype != DType::kF32) matmul.a_vector = 0;
  if (part.operands[part.rhs[0]].dtype != DType::kF32) matmul.b_vector = 0;
  return matmul;
}

// Multiplications hide the copies.
std::optional<StepCycles> StepOf(const PartContext& context, const MatmulProblem& problem,
                                 const TileCase& tile) {
  const TileMatmul matmul = MatmulOf(context, problem, tile.configuration);
  if (matmul.float_layout().shared(kFloatStages) > static_cast<int>(context.target.shared))
    return std::nullopt;
  const double area = matmul.m * matmul.n * matmul.b_count;
  return StepCycles{0, area * matmul.k / GpuTableOf(context.target).simt};
}

// Whether tensor cores can multiply the operands in their own types; here they would be widened element by
// element.
bool HasHalfTiles(const PartContext& context) {
  return !kMmaMatmul.candidates(context).empty() || !kWgmmaMatmul.candidates(context).empty();
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  if (!context.matmul) return {};
  const MatmulProblem& problem = *context.matmul;
  if (!SuitsFloatTiles(context, problem) || HasHalfTiles(context)) return {};
  return TileCandidates(context, problem, kTiles, kFloatTileK, StepOf);
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  const TileMatmul matmul = MatmulOf(context, problem, configuration);
  return WriteTileMatmul(context, problem, "matmul_simt", matmul, matmul.float_layout().shared(matmul.stages),
                         writer);
}

}  // namespace

constinit const KernelVariant kSimtMatmul = {VariantId::kSimt, kHeaders, Candidates, Write};

}  // namespace rondo::cuda
