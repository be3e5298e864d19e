// Matmuls in f32 by FMA, through square tiles (device/matmul_simt.cuh).
#include <algorithm>

#include "compiler/codegen/cuda/device/tile_layout.h"
#include "compiler/codegen/cuda/matmul/block_tiles.h"
#include "compiler/codegen/cuda/matmul/matmul_cost.h"
#include "compiler/codegen/cuda/matmul/matmul_families.h"
#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"matmul_simt"};

int64_t SharedBytes(const MatmulProblem& problem, int64_t size) {
  const int n = static_cast<int>(size);
  return FloatLayout(n, n, static_cast<int>(problem.bs), problem.a_k_major, problem.b_k_major)
      .shared(kFloatStages);
}

// The copies are hidden behind the multiplications.
double Cycles(const GpuTable& gpu, int64_t size, int64_t bs, int64_t own_steps, double busiest,
              int64_t cluster) {
  TileBlock block;
  block.busiest = busiest;
  block.steps = static_cast<double>(own_steps);
  block.cluster = cluster;
  block.area = static_cast<double>(size * size * bs);
  block.multiply = block.area * static_cast<double>(kFloatTileK) / gpu.simt;
  return TileCycles(gpu, block);
}

// Whether tensor cores take the factors as they are: here, they would be widened one by one.
bool HasHalfTiles(const PartContext& context, const MatmulProblem& problem) {
  return !kMmaMatmul.candidates(context, problem).empty() ||
         !kWgmmaMatmul.candidates(context, problem).empty();
}

std::vector<MatmulCandidate> Candidates(const PartContext& context, const MatmulProblem& problem) {
  std::vector<MatmulCandidate> candidates;
  if (!SuitsFloatTiles(context, problem) || HasHalfTiles(context, problem)) return candidates;
  const GpuTable& gpu = GpuTableOf(context.target);
  const int64_t steps = problem.Steps(kFloatTileK);
  for (int64_t size : {64, 32}) {
    if (SharedBytes(problem, size) > static_cast<int64_t>(context.target.shared)) continue;
    for (int64_t cluster : Clusters(context, steps)) {
      MatmulConfiguration configuration;
      configuration.family = MatmulFamily::kSimt;
      configuration.m = configuration.n = size;
      configuration.cluster = cluster;
      const double busiest = BusiestBlocks(context, problem, size, size, cluster);
      const double cycles = Cycles(gpu, size, problem.bs, (steps + cluster - 1) / cluster, busiest, cluster);
      candidates.push_back({configuration, AmongOthers(gpu, cycles)});
    }
  }
  return candidates;
}

Result<PartLaunch> Write(const PartContext& context, const MatmulProblem& problem,
                         const MatmulConfiguration& configuration, PartWriter* writer) {
  const Part& part = context.part;
  const Operand &lhs = part.operands[part.lhs], &rhs = part.operands[part.rhs[0]];
  const int64_t size = configuration.m, cluster = configuration.cluster;
  const TileGrid grid = GridOf(problem, size, size, cluster);
  const int lanes = EpilogueLanes(part, problem);
  const bool made = AIsMade(part) || lhs.dtype != DType::kF32;
  WriteTilePlaces(context, problem, grid, 1, writer);
  WriteEpilogue(context, problem, lanes, "", writer);
  writer->Line("matmul_simt<" + Text(size) + ", " + Text(int{kFloatStages}) + ", " + Text(problem.bs) + ", " +
               Text(cluster) + ", " + Truth(problem.a_k_major) + ", " + Text(made ? 0 : problem.a_vector) +
               ", " + Truth(problem.b_k_major) + ", " +
               Text(rhs.dtype == DType::kF32 ? problem.b_vector : 0) + ", " + Text(lanes) + ", " +
               Truth(AreConstant(context, part.rhs)) + ">" + TileArguments(part, problem));
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(SharedBytes(problem, size));
  launch.cluster = static_cast<uint32_t>(cluster);
  return WithBlocks(launch, grid.blocks);
}

}  // namespace

constinit const MatmulTemplate kSimtMatmul = {MatmulFamily::kSimt, kHeaders, Candidates, Write};

}  // namespace rondo::cuda
