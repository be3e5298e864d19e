#include "compiler/codegen/cuda/matmul/tma_operands.h"

#include "compiler/codegen/cuda/device/tma_layout.h"

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

}  // namespace

std::optional<TmaOperands> TmaAOf(const Part& part, const MatmulProblem& problem) {
  constexpr Run kOne = {1, 1};
  TmaOperands found;
  const Operand& lhs = part.operands[part.lhs];
  const FlatOperand a = Flatten(part, lhs);
  std::vector<Run> k = RunsOf(part, problem.k_loops, a), m = RunsOf(part, problem.m_loops, a),
                   batch = RunsOf(part, problem.batch_loops, a);
  if (k.size() > 2 || m.size() > 2 || batch.size() > 1) return std::nullopt;
  found.k_run = k[0].extent / (IsFp8(lhs.dtype) ? 2 : 1);
  if (k.size() == 2 && found.k_run % kTmaTileK != 0) return std::nullopt;
  found.m_run = m[0].extent;
  k.push_back(kOne);
  m.push_back(kOne);
  const std::optional<TensorMap> map = MapOf(lhs, a, {k[0], m[0], k[1], m[1], batch[0]});
  if (!map) return std::nullopt;
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

}  // namespace rondo::cuda
