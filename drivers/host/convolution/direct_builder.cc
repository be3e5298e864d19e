// Convolutions with an unpacked input (Variant::kDirect).
#include <algorithm>

#include "drivers/host/convolution/convolution_builders.h"
#include "drivers/host/matmul/operands.h"

namespace rondo::host {
namespace {

constexpr int64_t kMostDepth = int64_t{1} << 12;  // points of k
constexpr int64_t kMostTaps = 64;                 // of a point: more are cheaper to pack
constexpr int64_t kMostZeros = int64_t{1} << 20;  // floats, few of them touched
// Of more output channels in a group than kMostColumns, weights must be read in place, and taps be kMostRun
// long at most: else packing the input pays.
constexpr int64_t kMostColumns = 64, kMostRun = 512;

// The loop of k along which a tap runs, or -1: the longest loop that no guard depends on and that zeros can
// replace. `zeros`: how many consecutive zeros replace it in all groups.
int RunOfTaps(const PartContext& c, const Access& input, int64_t* zeros) {
  const Nest& nest = c.nest;
  const auto reach = [&](int loop) {
    const int64_t step = StepAlong(input, loop);
    return step < 0 ? kMostZeros + 1 : Bytes(step, nest.extent[loop] - 1);
  };
  int64_t groups = 1;
  for (int d = nest.first[kOuter]; d < nest.first[kM]; ++d) groups += reach(d);
  *zeros = groups;
  int run = -1;
  for (int d = nest.first[kK]; d < nest.first[kK + 1]; ++d) {
    bool fits = run < 0 || nest.extent[d] > nest.extent[run];
    for (int g = 0; g < input.num_guards; ++g) {
      const GuardTest& guard = input.guards[g];
      for (int i = 0; i < guard.loops; ++i) fits &= guard.loop[i] != d;
    }
    const int64_t all = groups + reach(d);
    if (!fits || (input.num_guards > 0 && all > kMostZeros)) continue;
    run = d;
    *zeros = all;
  }
  if (input.num_guards == 0) *zeros = 0;
  return run;
}

// The most points in a block. All groups and panels walk its input, which should stay in an L2 cache, as
// should its result and the list of taps; but each block reads all weights again.
int64_t RowsAtOnce(const PartContext& c, const DirectPart& part, const Access& input) {
  constexpr int64_t kMostResult = int64_t{8} << 10, kMostInput = int64_t{32} << 10;  // floats
  constexpr int64_t kMostAddresses = int64_t{4} << 10, kLeastRows = 96;
  const Nest& nest = c.nest;
  int64_t reach = 0;
  for (int d = nest.first[kM]; d < nest.first[kN]; ++d) reach += StepAlong(input, d) * (nest.extent[d] - 1);
  const int64_t of_point = std::max<int64_t>(reach / nest.points[kM], 1);
  const int64_t rows = std::max(std::min(kMostInput / of_point, kMostResult / part.acc_row), kLeastRows);
  return std::min(rows, kMostAddresses / part.taps.count);
}

}  // namespace

// Requires f32, contiguous output channels of the weights, an input whose absent elements are 0, and no index
// from data.
bool FitsDirect(const PartContext& c) {
  const Nest& nest = c.nest;
  if (!c.channels_last || c.part.skeleton != Skeleton::kConvolution || c.part.acc_type != TapeType::kF32 ||
      !c.part.prologue.empty() || c.part.loops[2] == 1 || IsPool(c) || c.part.rhs.size() > 1) {
    return false;
  }
  if (nest.points[kK] > kMostDepth) return false;
  const Operand& input = c.part.operands[c.part.lhs];
  const Operand& weight = c.part.operands[c.part.rhs[0]];
  if (input.dtype != DType::kF32 || !input.indirects.empty() || input.absent != 0 || c.Depends(input, kN)) {
    return false;
  }
  constexpr size_t kGroup = 1;
  for (const Guard& guard : input.guards) {
    if (guard.strides[kGroup] != 0) return false;
  }
  return weight.dtype == DType::kF32 && weight.indirects.empty() && weight.guards.empty() &&
         !c.Depends(weight, kM);
}

Status BuildDirect(PartContext& c, PartProgram** out) {
  const Nest& nest = c.nest;
  const Access *input = nullptr, *weight = nullptr;
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.lhs, c.tiling, &input));
  RONDO_RETURN_IF_ERROR(c.BuildAccess(c.part.rhs[0], c.tiling, &weight));
  int64_t zeros = 0;
  const int run = RunOfTaps(c, *input, &zeros);
  const int64_t taps = nest.points[kK] / (run < 0 ? 1 : nest.extent[run]);
  if (zeros > kMostZeros || taps > kMostTaps) return Status::Ok();
  const int64_t stored = StoredPanels(c, *weight);
  if (stored == 0 && weight->lane.kind != LaneKind::kUnit) return Status::Ok();
  const bool packs = stored == 0 || (run >= 0 && run + 1 < nest.first[kK + 1]);
  const bool in_place = !packs && c.engine.columns == kStoredColumns;
  const bool long_run = run >= 0 && nest.extent[run] > kMostRun;
  if (nest.points[kN] > kMostColumns && (!in_place || long_run)) return Status::Ok();
  DirectPart* p = c.New<DirectPart>(Variant::kDirect);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  p->tiling = c.tiling;
  p->work = MatmulWork(nest).Blocked();
  p->rhs[0].by_n = input;
  p->weight = weight;
  p->zeros = zeros;
  p->stored = stored;
  p->packs = packs;
  if (run >= 0) {
    p->run = nest.extent[run];
    p->run_step = StepAlong(*input, run);
    p->run_weight_step = StepAlong(*weight, run);
  }
  RONDO_RETURN_IF_ERROR(BuildTaps(c, *input, weight, run, &p->taps));
  for (int64_t t = 0; t < taps; ++t) p->last_tap = std::max(p->last_tap, p->taps.at[t]);
  RONDO_RETURN_IF_ERROR(BuildEpilogue(c, p));
  const int64_t rows = nest.points[kM];
  p->acc_row = AccumulatorRow(c.tiling, c.engine);
  p->block_rows = RowsAtOnce(c, *p, *input);
  constexpr int64_t kExtra = 2;
  p->block_rows = RowsOfBlock({rows, p->block_rows, 1, kExtra, nest.points[kOuter] * c.tiling.tiles},
                              c.sharing.Shares(p->work));
  p->tasks = (rows + p->block_rows - 1) / p->block_rows * nest.points[kOuter] * c.tiling.tiles;
  p->acc_stride = p->block_rows * p->acc_row * 4;
  p->acc_at = c.Take(p->acc_stride);
  p->taps_at = c.Take(Bytes(p->block_rows, taps, sizeof(float*)));
  p->zeros_at = c.Take(zeros * 4);
  p->weights_at = c.Take(Bytes(nest.points[kK], c.engine.columns, 4));
  return Status::Ok();
}

}  // namespace rondo::host
