// A reduction of a single row (Variant::kOneRow): threads share its elements, and each stage of elements is a
// phase. In a phase, each worker reduces in its own scratch; between phases, one thread combines these
// results and runs the row's stages. The row's scalars and kept elements are in the first worker's scratch.
// Compiled without fusing multiplications and additions, which would round once where a tape rounds twice.
#include "drivers/host/exec/exec.h"
#include "drivers/host/map/transpose.h"
#include "drivers/host/reduction/extremes.h"
#include "drivers/host/reduction/scalars.h"

namespace rondo::host::RONDO_ISA {
namespace {

constexpr int64_t kAtOnce = 1 << 14;  // floats between two checks of the stop signal

// The number of elements before the point at pos.
int64_t PositionOf(const Nest& nest, const int64_t* pos) {
  int64_t position = 0;
  for (int d = nest.first[1]; d < nest.first[2]; ++d) position = position * nest.extent[d] + pos[d];
  return position;
}

void TakeRange(const StageProgram& stage, char* scalars, const float* x, int64_t n) {
  Extreme* const least = stage.least < 0 ? nullptr : &ExtremeOf(scalars, stage.least);
  Extreme* const greatest = stage.greatest < 0 ? nullptr : &ExtremeOf(scalars, stage.greatest);
  if (greatest == nullptr) return TakeFloats<true, false>(x, n, least, nullptr);
  if (least == nullptr) return TakeFloats<false, true>(x, n, nullptr, greatest);
  TakeFloats<true, true>(x, n, least, greatest);
}

// Scalars that no stage has set yet are 0.
void ClearScalars(const ReductionPart& part, char* scalars) {
  for (int s = 0; s < part.num_scalars; ++s) std::memset(ScalarAt(scalars, s, kValue), 0, 8);
}

// The straight elements of tiles [first, last).
struct Elements {
  int64_t begin, end;
};
Elements ElementsOf(const ReductionPart& part, int64_t first, int64_t last) {
  const auto at = [&](int64_t tile) {
    if (tile >= part.tiling.tiles) return part.nest.points[1];
    int64_t pos[kMaxNest] = {};
    DecodeTile(part.nest, part.tiling, tile, pos);
    return PositionOf(part.nest, pos);
  };
  return {at(first), at(last)};
}

// The floats of a stage, some at a time: in place, or computed.
class Straight {
 public:
  Straight(const ReductionPart& part, const StageProgram& stage, const Worker& w)
      : along_(part.nest.extent[part.nest.first[2] - 1]),
        step_(stage.run_step),
        floats_(FloatsOf(stage.floats, w)),
        factors_(FloatsOf(stage.factors, w)),
        terms_(FloatsOf(stage.terms, w)),
        low_(stage.low),
        high_(stage.high) {}
  // The floats from `at` on, at most up to `end`; `n` gets their number.
  const float* From(int64_t at, int64_t end, int64_t* n) {
    if (factors_ == nullptr && step_ == along_) {
      *n = Least(kAtOnce, end - at);
      return floats_ + at;
    }
    const int64_t most = Least(kMost, end - at);
    int64_t run = at / along_, in_run = at % along_;
    for (int64_t done = 0; done < most;) {
      const int64_t count = Least(along_ - in_run, most - done);
      Compute(floats_ + run * step_ + in_run, in_run, count, some_ + done);
      done += count;
      ++run;
      in_run = 0;
    }
    *n = most;
    return some_;
  }

 private:
  static const float* FloatsOf(const Access* access, const Worker& w) {
    constexpr int64_t kStart[kMaxNest] = {};
    return access == nullptr ? nullptr
                             : reinterpret_cast<const float*>(Pointer(*access, w, BaseOf(*access, kStart)));
  }
  void Compute(const float* x, int64_t in_run, int64_t n, float* out) const {
    if (factors_ == nullptr) {
      std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
      return;
    }
    const float* const y = factors_ + in_run;
    const float* const z = terms_ == nullptr ? nullptr : terms_ + in_run;
    if (terms_ == nullptr) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) out[i] = x[i] * y[i];
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) {
        const float sum = x[i] * y[i] + z[i];
        const float least = sum < low_ ? low_ : sum;
        out[i] = least > high_ ? high_ : least;
      }
    }
  }

  static constexpr int64_t kMost = 1024;
  const int64_t along_, step_;
  const float *floats_, *factors_, *terms_;
  const float low_, high_;
  float some_[kMost];
};

void FindRange(const ReductionPart& part, const StageProgram& stage, Worker& w, const TapeFrame& frame,
               int64_t first, int64_t last) {
  const Elements elements = ElementsOf(part, first, last);
  Straight straight(part, stage, w);
  for (int64_t at = elements.begin, n; at < elements.end && !Stopped(w); at += n) {
    const float* const x = straight.From(at, elements.end, &n);
    TakeRange(stage, frame.scalars, x, n);
  }
}

void MakeBytes(const ReductionPart& part, const StageProgram& stage, Worker& w, TapeFrame& frame,
               int64_t first, int64_t last) {
  const Program& program = stage.program;
  Program before = program;
  before.num_body -= stage.straight + 2;
  int64_t pos[kMaxNest] = {};
  RunTape(before, frame, pos, 1);
  const Inst& op = program.body[program.num_body - 2];
  const Access& to = *program.body[program.num_body - 1].access;
  char* const out = Pointer(to, w, BaseOf(to, pos));
  const Elements elements = ElementsOf(part, first, last);
  Straight straight(part, stage, w);
  for (int64_t at = elements.begin, n; at < elements.end && !Stopped(w); at += n) {
    const float* const x = straight.From(at, elements.end, &n);
    op.fn({out + at, x, RegisterOf(program, w, op.b), RegisterOf(program, w, op.c)}, op, static_cast<int>(n));
  }
}

}  // namespace

void RunOneRow(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const ReductionPart& part = static_cast<const ReductionPart&>(base);
  const Nest& nest = part.nest;
  const StageProgram& stage = part.stages[part.phase_stage[w.phase]];
  TapeFrame frame;
  frame.worker = &w;
  frame.kept_stride = part.kept_stride;
  frame.scalars = w.scratch + part.scalars_at;
  frame.known = w.shared + part.scalars_at;
  if (w.phase == 0 && w.scratch == w.shared) ClearScalars(part, frame.scalars);
  StartScalars(part, stage.resets, frame.scalars, false, 1);
  if (stage.transpose != nullptr) {
    BeginTape(stage.transpose->program, w);
    return RunTranspose(part, *stage.transpose, frame, first, last, part.tiling.tiles);
  }
  BeginTape(stage.program, w);
  if (stage.floats != nullptr) {
    stage.quantises ? MakeBytes(part, stage, w, frame, first, last)
                    : FindRange(part, stage, w, frame, first, last);
    return;
  }
  int64_t pos[kMaxNest] = {};
  int n = DecodeTile(nest, part.tiling, first, pos);
  for (int64_t tile = first;;) {
    frame.position = PositionOf(nest, pos);
    frame.kept = w.shared + part.kept_at + frame.position * 8;
    RunTape(stage.program, frame, pos, n);
    if (++tile == last || Stopped(w)) return;
    n = NextTile(nest, part.tiling, pos);
  }
}

void TakeRangeOf(const PartProgram& base, Worker& w, const char* range, uint32_t shares) {
  const ReductionPart& part = static_cast<const ReductionPart&>(base);
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

void EndOneRow(const PartProgram& base, Worker& w, uint32_t shares, int64_t scratch_bytes) {
  const ReductionPart& part = static_cast<const ReductionPart&>(base);
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
  frame.kept_stride = part.kept_stride;
  frame.scalars = scalars;
  frame.known = scalars;
  int64_t pos[kMaxNest] = {};
  for (int s = at + 1; s < part.num_stages && part.stages[s].per_row; ++s) {
    BeginTape(part.stages[s].program, w);
    RunTape(part.stages[s].program, frame, pos, 1);
  }
}

}  // namespace rondo::host::RONDO_ISA
