// A reduction of a single row (Path::kOneRow): its elements are shared out, and the stages of elements are
// phases. What reduces in a phase does so in each worker's scratch; between phases one thread makes one of
// those, and runs the stages of the row. What is known of the row, and its kept elements, are in the first
// worker's.
#include "drivers/host/exec/exec.h"
#include "drivers/host/exec/extremes.h"

namespace rondo::host::RONDO_ISA {
namespace {

constexpr int64_t kAtOnce = 1 << 14;  // floats between two looks at the stop signal

// Elements before the point at pos.
int64_t PositionOf(const Nest& nest, const int64_t* pos) {
  int64_t position = 0;
  for (int d = nest.first[1]; d < nest.first[2]; ++d) position = position * nest.extent[d] + pos[d];
  return position;
}

const float* FloatsOf(const StageProgram& stage, const Worker& w, const int64_t* start) {
  return reinterpret_cast<const float*>(Pointer(*stage.floats, w, BaseOf(*stage.floats, start)));
}

void TakeRange(const StageProgram& stage, char* scalars, const float* x, int64_t n) {
  Extreme* const least = stage.least < 0 ? nullptr : &ExtremeOf(scalars, stage.least);
  Extreme* const greatest = stage.greatest < 0 ? nullptr : &ExtremeOf(scalars, stage.greatest);
  if (greatest == nullptr) return TakeFloats<true, false>(x, n, least, nullptr);
  if (least == nullptr) return TakeFloats<false, true>(x, n, nullptr, greatest);
  TakeFloats<true, true>(x, n, least, greatest);
}

// Scalars that no stage has set yet read as 0.
void ClearScalars(const PartProgram& part, char* scalars) {
  for (int s = 0; s < part.num_scalars; ++s) std::memset(ScalarAt(scalars, s, kValue), 0, 8);
}

}  // namespace

void RunOneRow(const PartProgram& part, Worker& w, int64_t first, int64_t last) {
  const Nest& nest = part.nest;
  const StageProgram& stage = part.stages[part.phase_stage[w.phase]];
  TapeFrame frame;
  frame.worker = &w;
  frame.part = &part;
  frame.scalars = w.scratch + part.scalars_at;
  frame.known = w.shared + part.scalars_at;
  if (w.phase == 0 && w.scratch == w.shared) ClearScalars(part, frame.scalars);
  StartScalars(part, stage.resets, frame.scalars, false, 1);
  BeginTape(stage.program, w);
  int64_t pos[kMaxNest] = {};
  if (stage.floats != nullptr) {
    const int64_t lanes = part.tiling.chunk * part.tiling.inner;
    const int64_t end = Least(last * lanes, nest.points[1]);
    const float* const floats = FloatsOf(stage, w, pos);
    if (stage.quantises) {
      const Program& program = stage.program;
      Program before = program;
      before.num_body -= 3;
      RunTape(before, frame, pos, 1);
      const Inst& op = program.body[program.num_body - 2];
      const Access& to = *program.body[program.num_body - 1].access;
      char* const out = Pointer(to, w, BaseOf(to, pos));
      for (int64_t at = first * lanes; at < end && !Stopped(w); at += kAtOnce) {
        op.fn({out + at, floats + at, RegisterOf(program, w, op.b), RegisterOf(program, w, op.c)}, op,
              static_cast<int>(Least(kAtOnce, end - at)));
      }
      return;
    }
    for (int64_t at = first * lanes; at < end && !Stopped(w); at += kAtOnce)
      TakeRange(stage, frame.scalars, floats + at, Least(kAtOnce, end - at));
    return;
  }
  int n = DecodeTile(nest, part.tiling, first, pos);
  for (int64_t tile = first;;) {
    frame.position = PositionOf(nest, pos);
    frame.kept = w.shared + part.kept_at + frame.position * 8;
    RunTape(stage.program, frame, pos, n);
    if (++tile == last || Stopped(w)) return;
    n = NextTile(nest, part.tiling, pos);
  }
}

void TakeRangeOf(const PartProgram& part, Worker& w, const char* range, uint32_t shares) {
  const StageProgram& stage = part.stages[part.phase_stage[0]];
  char* const scalars = w.scratch + part.scalars_at;
  ClearScalars(part, scalars);
  StartScalars(part, stage.resets, scalars, false, 1);
  for (uint32_t share = 0; share < shares; ++share, range += kRangeBytes) {
    const Range& of = *reinterpret_cast<const Range*>(range);
    if (stage.least >= 0) ExtremeOf(scalars, stage.least).Merge(TapeOp::kReduceMin, of.least);
    if (stage.greatest >= 0) ExtremeOf(scalars, stage.greatest).Merge(TapeOp::kReduceMax, of.greatest);
  }
}

void EndOneRow(const PartProgram& part, Worker& w, uint32_t shares, int64_t scratch_bytes) {
  const int at = part.phase_stage[w.phase];
  char* const scalars = w.shared + part.scalars_at;
  for (int s = 0; s < part.num_scalars; ++s) {
    if ((part.stages[at].resets >> s & 1) == 0) continue;
    for (uint32_t share = 1; share < shares; ++share)
      ExtremeOf(scalars, s).Merge(part.scalars[s].reduce, ExtremeOf(scalars + share * scratch_bytes, s));
  }
  EndScalars(part, part.stages[at].resets, scalars, false, 1);
  TapeFrame frame;
  frame.worker = &w;
  frame.part = &part;
  frame.scalars = scalars;
  frame.known = scalars;
  int64_t pos[kMaxNest] = {};
  for (int s = at + 1; s < part.num_stages && part.stages[s].per_row; ++s) {
    BeginTape(part.stages[s].program, w);
    RunTape(part.stages[s].program, frame, pos, 1);
  }
}

}  // namespace rondo::host::RONDO_ISA
