#include "compiler/codegen/cuda/matmul/tma_operands.h"

#include <algorithm>

#include "compiler/codegen/cuda/combined_cells.h"

namespace rondo::cuda {

namespace {

// Loops with evenly spaced points, merged into one: the number of points, and elements from one to the next.
struct Run {
  int64_t extent, stride;
};
// The runs of some loops, innermost first.
std::vector<Run> RunsOf(const Part& part, const std::vector<size_t>& loops, const FlatOperand& operand) {
  std::vector<Run> runs;
  for (size_t n = loops.size(); n-- > 0;) {
    const int64_t extent = part.loops[loops[n]], stride = operand.strides[loops[n]];
    if (extent == 1) continue;
    if (!runs.empty() && stride == runs.back().stride * runs.back().extent) {
      runs.back().extent *= extent;
    } else {
      runs.push_back({extent, stride});
    }
  }
  if (runs.empty()) runs.push_back({1, 1});
  return runs;
}

// None if TMA cannot copy along the runs. Lines of FP8 are copied as pairs.
std::optional<TensorMap> MapOf(const Operand& operand, const FlatOperand& flat, std::vector<Run> runs) {
  const bool pairs = IsFp8(operand.dtype);
  const int64_t size = pairs ? 2 : ByteSize(operand.dtype), line = 16 / size;
  for (size_t d = 0; pairs && d < runs.size(); ++d) {
    int64_t& counted = d == 0 ? runs[0].extent : runs[d].stride;
    if (d > 0 && runs[d].extent == 1) continue;
    if (counted % 2 != 0) return std::nullopt;
    counted /= 2;
  }
  if (!flat.coordinates.empty() || !operand.indirects.empty() || flat.offset < 0 || runs[0].stride != 1)
    return std::nullopt;
  TensorMap map;
  map.param = operand.param;
  map.offset = static_cast<uint64_t>(flat.offset * ByteSize(operand.dtype));
  map.dtype = pairs ? DType::kF16 : operand.dtype;
  map.rank = static_cast<uint32_t>(runs.size());
  for (size_t d = 0; d < runs.size(); ++d) {
    const int64_t stride = runs[d].extent == 1 ? line : runs[d].stride;
    if (d > 0 && (stride < 1 || stride % line != 0)) return std::nullopt;
    map.extents[d] = static_cast<uint64_t>(runs[d].extent);
    if (d > 0) map.strides[d - 1] = static_cast<uint64_t>(stride * size);
    map.box[d] = 1;
  }
  map.box[0] = kTmaTileK;
  map.swizzle = 128;
  return map;
}

// The tensor map of one B; none if TMA cannot copy it.
std::optional<TensorMap> BMap(const Part& part, const MatmulProblem& problem, const Operand& rhs) {
  const FlatOperand b = Flatten(part, rhs);
  const std::vector<Run> k = RunsOf(part, problem.k_loops, b), n = RunsOf(part, problem.n_loops, b),
                         batch = RunsOf(part, problem.batch_loops, b);
  if (k.size() > 1 || n.size() > 1 || batch.size() > 1) return std::nullopt;
  return problem.b_k_major ? MapOf(rhs, b, {k[0], n[0], batch[0]}) : MapOf(rhs, b, {n[0], k[0], batch[0]});
}

// The map of an operand that lies evenly in up to two runs of `lines` loops and two along M: of their inner
// runs, in elements.
std::optional<TensorMap> MapOfRuns(const Part& part, const MatmulProblem& problem, const Operand& operand,
                                   const std::vector<size_t>& lines, int64_t* line_run, int64_t* m_run) {
  constexpr Run kOne = {1, 1};
  const FlatOperand flat = Flatten(part, operand);
  std::vector<Run> line = RunsOf(part, lines, flat), m = RunsOf(part, problem.m_loops, flat),
                   batch = RunsOf(part, problem.batch_loops, flat);
  if (line.size() > 2 || m.size() > 2 || batch.size() > 1) return std::nullopt;
  *line_run = line[0].extent;
  *m_run = m[0].extent;
  line.push_back(kOne);
  m.push_back(kOne);
  return MapOf(operand, flat, {line[0], m[0], line[1], m[1], batch[0]});
}

}  // namespace

std::optional<TmaOperands> TmaAOf(const Part& part, const MatmulProblem& problem) {
  TmaOperands found;
  const Operand& lhs = part.operands[part.lhs];
  const std::optional<TensorMap> map =
      MapOfRuns(part, problem, lhs, problem.k_loops, &found.k_run, &found.m_run);
  if (IsFp8(lhs.dtype)) found.k_run /= 2;
  if (!map || (map->extents[2] > 1 && found.k_run % kTmaTileK != 0)) return std::nullopt;
  found.maps.push_back(*map);
  return found;
}

std::optional<TmaOperands> TmaOperandsOf(const Part& part, const MatmulProblem& problem) {
  std::optional<TmaOperands> found = TmaAOf(part, problem);
  if (!found) return std::nullopt;
  for (uint16_t index : part.rhs) {
    const std::optional<TensorMap> map = BMap(part, problem, part.operands[index]);
    if (!map) return std::nullopt;
    found->maps.push_back(*map);
  }
  return found;
}

std::optional<TmaResults> TmaResultsOf(const Part& part, const MatmulProblem& problem) {
  constexpr int64_t kRows = 16, kColumns = 64;
  const std::vector<size_t> stored = Touched(part.epilogue, TapeOp::kStore),
                            loaded = Touched(part.epilogue, TapeOp::kLoad);
  // Rows beyond the last would be combined as well.
  if (!CombinedCells(part).empty()) return std::nullopt;
  if (stored.size() != 1 || std::find(loaded.begin(), loaded.end(), stored[0]) != loaded.end())
    return std::nullopt;
  const Operand& out = part.operands[stored[0]];
  if (!Is16Bit(out.dtype)) return std::nullopt;
  TmaResults found;
  found.operand = stored[0];
  int64_t n_run = 1, m_run = 1;
  const std::optional<TensorMap> map = MapOfRuns(part, problem, out, problem.n_loops, &n_run, &m_run);
  const bool whole =
      map && (map->extents[2] == 1 || n_run % kColumns == 0) && (map->extents[3] == 1 || m_run % kRows == 0);
  if (!whole) return std::nullopt;
  found.runs = {static_cast<int>(m_run), static_cast<int>(n_run)};
  found.map = *map;
  found.map.box[1] = kRows;
  return found;
}

}  // namespace rondo::cuda
