#include "compiler/codegen/cuda/matmul/block_tiles.h"

#include <algorithm>

#include "compiler/codegen/cuda/matmul/matmul_lambdas.h"

namespace rondo::cuda {

namespace {

constexpr size_t kMostCoordinates = 3;  // that a place of the device templates has

// Groups of a convolution are many matmuls of few columns each.
bool IsEnough(const Part& part, const MatmulProblem& problem) {
  const bool grouped = part.skeleton == Skeleton::kConvolution && problem.batches > 1;
  return problem.n >= (grouped ? 4 : 8) && problem.m * problem.n * (grouped ? problem.batches : 1) >= 1024;
}

// Whether tiles of A can be copied: absent elements are zeros.
bool CanCopyA(const Part& part) {
  const Operand& lhs = part.operands[part.lhs];
  return Flatten(part, lhs).coordinates.size() <= kMostCoordinates && lhs.absent == 0;
}

}  // namespace

bool SuitsHalfTiles(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  const DType a = part.operands[part.lhs].dtype, b = part.operands[part.rhs[0]].dtype;
  const bool typed = part.acc_type == TapeType::kF32 && Is16Bit(b) && (!part.prologue.empty() || a == b);
  return typed && problem.bs <= 2 && CanCopyA(part) && IsEnough(part, problem) && problem.k >= 16;
}

bool SuitsFloatTiles(const PartContext& context, const MatmulProblem& problem) {
  const Part& part = context.part;
  const DType a = part.operands[part.lhs].dtype, b = part.operands[part.rhs[0]].dtype;
  const bool typed = part.acc_type == TapeType::kF32 && NaturalType(b) == TapeType::kF32 &&
                     (!part.prologue.empty() || NaturalType(a) == TapeType::kF32);
  return typed && problem.bs <= 2 && CanCopyA(part) && problem.k >= 8 && IsEnough(part, problem);
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

std::vector<int64_t> Clusters(const PartContext& context, int64_t steps) {
  if (context.cluster != 0) return {static_cast<int64_t>(context.cluster)};
  const int64_t most = context.target.clusters() ? 8 : 1;
  std::vector<int64_t> clusters = {1};
  for (int64_t cluster = 2; cluster <= most && cluster <= steps; cluster *= 2) clusters.push_back(cluster);
  return clusters;
}

TileGrid GridOf(const MatmulProblem& problem, int64_t m, int64_t n, int64_t cluster) {
  return {(problem.m + m - 1) / m, (problem.n + n - 1) / n, cluster, problem.Tiles(m, n) * cluster};
}

void WriteTilePlaces(const PartContext& context, const MatmulProblem& problem, const TileGrid& grid,
                     int a_lanes, PartWriter* writer) {
  const Part& part = context.part;
  const FlatOperand a = Flatten(part, part.operands[part.lhs]), b = Flatten(part, part.operands[part.rhs[0]]);
  writer->Line("const u32 rank = block % " + Text(grid.cluster) + "u, tile = block / " + Text(grid.cluster) +
               "u;");
  writer->Line("const u32 row_tile = tile % " + Text(grid.m_tiles) + "u, column_tile = tile / " +
               Text(grid.m_tiles) + "u % " + Text(grid.n_tiles) + "u, batch = tile / " +
               Text(grid.m_tiles * grid.n_tiles) + "u;");
  WritePlace("batch_left_place", problem.batch_loops, a, true, writer);
  WritePlace("row_place", problem.m_loops, a, false, writer);
  WritePlace("left_depth_place", problem.k_loops, a, false, writer);
  WritePresent(a, writer);
  WriteAValue(context, problem, a_lanes, writer);
  WritePlace("batch_right_place", problem.batch_loops, b, false, writer);
  WritePlace("column_place", problem.n_loops, b, false, writer);
  WritePlace("right_depth_place", problem.k_loops, b, false, writer);
  WriteBValue(context, problem, writer);
  writer->Line("const At batch_left = batch_left_place((int)batch);");
  writer->Line("auto row_at = [&](int row) { return batch_left + row_place(row); };");
  writer->Line("const i64 batch_right = batch_right_place((int)batch).a;");
  WriteBases(part, "batch_right", writer);
}

std::string TileArguments(const Part& part, const MatmulProblem& problem) {
  return "(row_tile, column_tile, rank, " + Text(problem.m) + ", " + Text(problem.n) + ", " +
         Text(problem.k) + ", p" + Text(part.operands[part.lhs].param) +
         ", right, row_at, left_depth_place, left_present, left_value, column_place, right_depth_place, "
         "right_value, finish);";
}

}  // namespace rondo::cuda
