// Convolutions of few output channels a group, read where they lie (Path::kDirect).
#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

constexpr int kOuter = 0, kM = 1, kN = 2, kK = 3;  // groups of the nest

constexpr int64_t kMostColumns = 64;  // output channels of a group: with more, a packed input pays
constexpr int64_t kMostPacked = int64_t{1} << 12;  // points of k
constexpr int64_t kMostTaps = 64;                  // of a point: more are cheaper to pack
constexpr int64_t kMostZeros = int64_t{1} << 20;   // floats, of which few are touched

int64_t StepAlong(const Access& access, int loop) {
  for (int i = 0; i < access.num_loops; ++i) {
    if (access.loop[i] == loop) return access.step[i];
  }
  return 0;
}

}  // namespace

// f32, weights of one output channel beside the other, an input that is 0 where it is absent, and no index
// from data.
bool PartBuilder::FitsDirect() const {
  const Nest& nest = out_->nest;
  if (!channels_ || part_.acc_type != TapeType::kF32 || !part_.prologue.empty() || part_.loops[2] == 1) {
    return false;
  }
  if (nest.points[kN] > kMostColumns || nest.points[kK] > kMostPacked) return false;
  const Operand& input = part_.operands[part_.lhs];
  const Operand& weight = part_.operands[part_.rhs[0]];
  if (input.dtype != DType::kF32 || !input.indirects.empty() || input.absent != 0 || Depends(input, kN)) {
    return false;
  }
  constexpr size_t kGroup = 1;
  for (const Guard& guard : input.guards) {
    if (guard.strides[kGroup] != 0) return false;
  }
  return weight.dtype == DType::kF32 && weight.indirects.empty() && weight.guards.empty() &&
         !Depends(weight, kM);
}

// The loop of k along which a tap runs, or -1: the longest that no guard depends on and that zeros can stand
// for. `zeros`: how many, in a row, stand for it in all groups.
int PartBuilder::RunOfTaps(int64_t* zeros) const {
  const Nest& nest = out_->nest;
  const Access& input = *out_->rhs[0].by_n;
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

Status PartBuilder::BuildDirect(bool* built) {
  const Nest& nest = out_->nest;
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.lhs, out_->tiling, &out_->rhs[0].by_n));
  RONDO_RETURN_IF_ERROR(BuildAccess(part_.rhs[0], out_->tiling, &out_->weight));
  const int run = RunOfTaps(&out_->zeros);
  const int64_t taps = nest.points[kK] / (run < 0 ? 1 : nest.extent[run]);
  *built = out_->zeros <= kMostZeros && taps <= kMostTaps;
  if (!*built) return Status::Ok();
  out_->path = Path::kDirect;
  if (run >= 0) {
    out_->tap_run = nest.extent[run];
    out_->tap_step = StepAlong(*out_->rhs[0].by_n, run);
    out_->tap_weight_step = StepAlong(*out_->weight, run);
  }
  RONDO_RETURN_IF_ERROR(BuildTaps(*out_->rhs[0].by_n, run));
  RONDO_RETURN_IF_ERROR(BuildEpilogue());
  const int64_t vector = engine_.columns / engine_.vectors, rows = nest.points[kM];
  out_->acc_row = (nest.points[kN] + vector - 1) / vector * vector;
  constexpr int64_t kMostAcc = int64_t{8} << 10, kMostAddresses = int64_t{4} << 10;  // floats; addresses
  out_->block_rows = kMostAcc / out_->acc_row;
  if (out_->block_rows > kMostAddresses / out_->taps) out_->block_rows = kMostAddresses / out_->taps;
  constexpr int64_t kExtra = 2;
  out_->block_rows =
      RowsOfBlock({rows, out_->block_rows, 1, kExtra, nest.points[kOuter]}, sharing_.Shares(out_->work));
  out_->tasks = (rows + out_->block_rows - 1) / out_->block_rows * nest.points[kOuter];
  out_->acc_stride = out_->block_rows * out_->acc_row * 4;
  out_->acc_at = Take(out_->acc_stride);
  out_->taps_at = Take(Bytes(out_->block_rows, out_->taps, sizeof(float*)));
  out_->zeros_at = Take(out_->zeros * 4);
  out_->rhs_at = Take(Bytes(nest.points[kK], engine_.columns, 4));
  return Status::Ok();
}

}  // namespace rondo::host
