// Matmuls of 8-bit integers and of FP8 through tiles by mma.sync (device/matmul_imma.cuh).
#include <optional>

#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/byte_operands.h"
#include "compiler/codegen/cuda/matmul/matmul_variants.h"
#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_imma"};

constexpr KernelConfiguration Tile(int64_t m, int64_t n, int64_t k, int64_t warps_m, int64_t warps_n,
                                   int64_t warps_k) {
  return {VariantId::kImma, m, n, k, warps_m, warps_n, warps_k};
}

// 8 warps; K in bytes. The first of several tiles with the same cost is taken.
constexpr KernelConfiguration kTiles[] = {
    Tile(128, 128, 128, 2, 4, 1), Tile(128, 128, 64, 2, 4, 1), Tile(128, 64, 128, 4, 2, 1),
    Tile(128, 64, 64, 4, 2, 1),   Tile(64, 128, 128, 2, 4, 1), Tile(64, 64, 128, 2, 2, 2),
    Tile(64, 64, 64, 2, 2, 2),    Tile(32, 64, 128, 1, 2, 4),  Tile(64, 32, 128, 2, 1, 4),
    Tile(32, 32, 128, 1, 2, 4),
};

// Whether the operands are bytes in memory that the templates can address.
bool Suits(const PartContext& context, const MatmulProblem& problem) {
  constexpr int64_t kMostB = 3;
  constexpr size_t kMostCoordinates = 3;  // coordinates of a place in the device templates
  const Part& part = context.part;
  const Operand& a = part.operands[part.lhs];
  return MultipliesBytes(context, problem) && (!IsFp8(a.dtype) || a.absent == 0) && a.indirects.empty() &&
         Flatten(part, a).coordinates.size() <= kMostCoordinates && problem.n >= 8 &&
         problem.b_count <= kMostB;
}

TileMatmul MatmulOf(const PartContext& context, const MatmulProblem& problem,
                    const KernelConfiguration& configuration) {
  TileMatmul matmul = TileMatmulOf(context, problem, configuration);
  if (!problem.a_k_major) matmul.a_vector = 1;
  if (!problem.b_k_major) matmul.b_vector = 1;
  return matmul;
}

// The cost as for 16-bit types, which tensor cores multiply at half the rate; where mma.sync does not reach
// the FP8 units, FP8 is converted to 16 bits.
std::optional<StepCycles> StepOf(const PartContext& context, const MatmulProblem& problem,
                                 const TileCase& tile) {
  const TileMatmul matmul = MatmulOf(context, problem, tile.configuration);
  if (!RoomOf(context.target, matmul.byte_layout(), tile)) return std::nullopt;
  const bool fp8 = IsFp8(context.part.operands[context.part.lhs].dtype);
  const double rate = fp8 && !context.target.mma_fp8() ? 1 : 2;
  return MmaCycles(GpuTableOf(context.target), matmul, matmul.byte_layout(), rate);
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  if (!context.matmul || !Suits(context, *context.matmul)) return {};
  return TileCandidates(context, *context.matmul, kTiles, 0, StepOf);
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  const Part& part = context.part;
  TileMatmul matmul = MatmulOf(context, problem, configuration);
  const TileRoom room =
      *RoomOf(context.target, matmul.byte_layout(), CaseOf(context, problem, configuration.k, configuration));
  matmul.stages = room.stages;
  const Operand& a = part.operands[part.lhs];
  const std::string types = std::string(", ") +
                            BytesText(a.dtype, part.operands[MatricesOf(part, problem)[0]].dtype) + ", " +
                            Text(static_cast<int64_t>(static_cast<uint8_t>(static_cast<int64_t>(a.absent))));
  RONDO_ASSIGN_OR_RETURN(PartLaunch launch,
                         WriteTileMatmul(context, problem, "matmul_imma", matmul,
                                         matmul.byte_layout().shared(matmul.stages), writer, types));
  launch.resident = room.resident;
  return launch;
}

std::vector<KernelConfiguration> Tiles(const CudaTarget&) { return {std::begin(kTiles), std::end(kTiles)}; }

}  // namespace

constinit const KernelVariant kImmaMatmul = {VariantId::kImma, kHeaders, Candidates, Write, Tiles};

}  // namespace rondo::cuda
