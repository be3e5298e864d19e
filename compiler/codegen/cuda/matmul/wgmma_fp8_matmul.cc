// Matmuls of FP8 through tiles of two warpgroups by wgmma, copied by threads (device/matmul_wgmma_fp8.cuh):
// what TMA cannot bring, convolutions above all.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_templates.h"
#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_wgmma_fp8"};

constexpr KernelConfiguration Tile(int64_t n) { return {TemplateFamily::kWgmmaFp8, kWgmmaTileM, n}; }
// Of tiles that cost the same, the first is taken.
constexpr KernelConfiguration kTiles[] = {Tile(160), Tile(128), Tile(96), Tile(64)};

TileMatmul MatmulOf(const PartContext& context, const MatmulProblem& problem,
                    const KernelConfiguration& configuration) {
  TileMatmul matmul = TileMatmulOf(context, problem, configuration);
  matmul.k = kWgmmaTileBytes;
  return matmul;
}

// Lines of both operands run along K, by vectors; and there is enough for tiles of 128 rows.
bool Suits(const PartContext& context, const MatmulProblem& problem) {
  constexpr int64_t kMostB = 2;
  constexpr size_t kMostCoordinates = 3;  // that a place of the device templates has
  constexpr int kLeastVector = 4;
  const Part& part = context.part;
  const Operand& a = part.operands[part.lhs];
  return context.target.warp_groups && part.acc_type == TapeType::kF32 && part.prologue.empty() &&
         IsFp8(a.dtype) && IsFp8(part.operands[part.rhs[0]].dtype) && a.absent == 0 && a.indirects.empty() &&
         Flatten(part, a).coordinates.size() <= kMostCoordinates && problem.a_k_major && problem.b_k_major &&
         problem.a_vector >= kLeastVector && problem.b_vector >= kLeastVector && problem.m > 16 &&
         problem.n >= 32 && problem.b_count <= kMostB;
}

// Stages of copies that fit; none if too few do.
std::optional<int> Stages(const CudaTarget& target, const TileMatmul& matmul, int64_t own_steps) {
  constexpr int64_t kLeast = 4, kMost = 12;
  const TileLayout layout = matmul.wgmma_byte_layout();
  const int64_t room = target.shared - layout.slack();
  const int64_t stages =
      std::min<int64_t>({room / layout.stage(), kMost, std::max<int64_t>(kLeast, own_steps + 1)});
  if (layout.shared(0) > static_cast<int64_t>(target.shared) || stages < kLeast) return std::nullopt;
  return static_cast<int>(stages);
}

// An instruction takes as long as one of 16-bit types, of half as many.
std::optional<StepCycles> StepOf(const PartContext& context, const MatmulProblem& problem,
                                 const TileCase& tile) {
  constexpr int kMostColumns = 160;  // of all B: two accumulators for each
  const GpuTable& gpu = GpuTableOf(context.target);
  const TileMatmul matmul = MatmulOf(context, problem, tile.configuration);
  if (matmul.b_count * matmul.n > kMostColumns || !Stages(context.target, matmul, tile.own_steps))
    return std::nullopt;
  const double area = matmul.m * matmul.n * matmul.b_count;
  return StepCycles{matmul.wgmma_byte_layout().stage() / gpu.l2_copy_bytes, area * matmul.k / 2 / gpu.wgmma};
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  if (!context.matmul || !Suits(context, *context.matmul)) return {};
  return TileCandidates(context, *context.matmul, kTiles, kWgmmaTileBytes, StepOf);
}

Result<PartLaunch> Write(const PartContext& context, const KernelConfiguration& configuration,
                         PartWriter* writer) {
  const MatmulProblem& problem = *context.matmul;
  const Part& part = context.part;
  TileMatmul matmul = MatmulOf(context, problem, configuration);
  const TileCase tile = CaseOf(context, problem, kWgmmaTileBytes, configuration);
  matmul.stages = *Stages(context.target, matmul, tile.own_steps);
  const auto e5m2 = [&](uint16_t operand) {
    return part.operands[operand].dtype == DType::kE5M2 ? ", true" : ", false";
  };
  return WriteTileMatmul(context, problem, "matmul_wgmma_fp8", matmul,
                         matmul.wgmma_byte_layout().shared(matmul.stages), writer,
                         std::string(e5m2(part.lhs)) + e5m2(part.rhs[0]));
}

std::vector<KernelConfiguration> Tiles(const CudaTarget& target) {
  if (!target.warp_groups) return {};
  return {std::begin(kTiles), std::end(kTiles)};
}

}  // namespace

constinit const PartTemplate kWgmmaFp8Matmul = {TemplateFamily::kWgmmaFp8, kHeaders, Candidates, Write,
                                                Tiles};

}  // namespace rondo::cuda
