// Row reductions: lanes along a row, or lanes across rows. Sums of f32 are blocked: lanes within a tile, then
// double from tile to tile (or from element to element, if lanes are across rows).
#include "core/scalar.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/reduction/extremes.h"
#include "drivers/host/reduction/reduce_tile.h"
#include "drivers/host/reduction/scalars.h"

namespace rondo::host::RONDO_ISA {
namespace {

template <typename T>
T* Values(char* scalars, int slot, int which) {
  return reinterpret_cast<T*>(ScalarAt(scalars, slot, which));
}

// The type that accumulates a sum of T.
template <typename T>
struct SumOf {
  using type = double;
};
template <>
struct SumOf<int64_t> {
  using type = int64_t;
};

// `what` is a functor with a template operator()<T>.
template <typename F>
void ForType(TapeType type, F f) {
  switch (type) {
    case TapeType::kF32: f(0.0f); return;
    case TapeType::kF64: f(0.0); return;
    case TapeType::kI64: f(int64_t{0}); return;
  }
}

template <TapeOp kOp, typename T>
[[gnu::flatten]] void ReduceColumns(T* acc, const T* x, int n) {
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) acc[i] = scalar::ReduceStep<T>(kOp, acc[i], x[i]);
}

template <typename T>
void ReduceTyped(const Inst& inst, TapeFrame& frame, const T* x, int n) {
  if constexpr (std::is_same_v<T, float>) {
    if (!frame.columns && HasExtreme(inst.op, TapeType::kF32)) {
      Extreme& extreme = ExtremeOf(frame.scalars, inst.arg);
      if (inst.op == TapeOp::kReduceMin) return TakeFloats<true, false>(x, n, &extreme, nullptr);
      return TakeFloats<false, true>(x, n, nullptr, &extreme);
    }
  }
  using Sum = typename SumOf<T>::type;
  Sum* sum = Values<Sum>(frame.scalars, inst.arg, kSum);
  T* value = Values<T>(frame.scalars, inst.arg, kValue);
  if (inst.op == TapeOp::kReduceSum) {
    if (!frame.columns) {
      *sum = scalar::ReduceStep<Sum>(TapeOp::kReduceSum, *sum, ReduceTile<TapeOp::kReduceSum>(x, n));
      return;
    }
    for (; n > 0; n -= frame.acc_lanes, x += frame.acc_lanes) {
      const int lanes = Least(n, frame.acc_lanes);
      for (int i = 0; i < lanes; ++i) sum[i] = scalar::ReduceStep<Sum>(TapeOp::kReduceSum, sum[i], x[i]);
    }
    return;
  }
  auto each = [&](auto op) {
    constexpr TapeOp kOp = decltype(op)::value;
    if (frame.columns) {
      ReduceColumns<kOp, T>(value, x, n);
    } else {
      *value = scalar::ReduceStep<T>(kOp, *value, ReduceTile<kOp, T>(x, n));
    }
  };
  switch (inst.op) {
    case TapeOp::kReduceProd: each(std::integral_constant<TapeOp, TapeOp::kReduceProd>()); return;
    case TapeOp::kReduceMax: each(std::integral_constant<TapeOp, TapeOp::kReduceMax>()); return;
    default: each(std::integral_constant<TapeOp, TapeOp::kReduceMin>()); return;
  }
}

// Whether x replaces `best`: NaN beats every number; an equal number wins if the last one is wanted.
template <typename T>
bool Beats(TapeOp op, bool last, T x, T best) {
  if (best != best) return x != x && last;
  if (x != x) return true;
  if (x == best) return last;
  return op == TapeOp::kReduceArgMax ? x > best : x < best;
}

template <typename T>
void ReduceArgTyped(const Inst& inst, TapeFrame& frame, const T* x, int n) {
  int64_t* index = Values<int64_t>(frame.scalars, inst.arg, kValue);
  T* best = Values<T>(frame.scalars, inst.arg, kCompared);
  const bool last = inst.imm.i != 0;
  if (frame.columns) {
    for (int i = 0; i < n; ++i) {
      if (index[i] >= 0 && !Beats(inst.op, last, x[i], best[i])) continue;
      index[i] = frame.position;
      best[i] = x[i];
    }
    return;
  }
  for (int i = 0; i < n; ++i) {
    if (*index >= 0 && !Beats(inst.op, last, x[i], *best)) continue;
    *index = frame.position + i;
    *best = x[i];
  }
}

}  // namespace

void ReduceLanes(const Inst& inst, TapeFrame& frame, const void* in, int n) {
  ForType(inst.of, [&](auto zero) {
    using T = decltype(zero);
    ReduceTyped<T>(inst, frame, static_cast<const T*>(in), n);
  });
}

void ReduceArgLanes(const Inst& inst, TapeFrame& frame, const void* in, int n) {
  ForType(inst.of, [&](auto zero) {
    using T = decltype(zero);
    ReduceArgTyped<T>(inst, frame, static_cast<const T*>(in), n);
  });
}

void StartScalars(const ReductionPart& part, uint32_t which, char* scalars, bool columns, int lanes) {
  for (int s = 0; s < part.num_scalars; ++s) {
    if ((which >> s & 1) == 0) continue;
    const ScalarSlot& slot = part.scalars[s];
    if (ReducesToPosition(slot.reduce)) {
      for (int i = 0; i < lanes; ++i) Values<int64_t>(scalars, s, kValue)[i] = -1;
    } else if (slot.reduce == TapeOp::kReduceSum) {
      std::memset(ScalarAt(scalars, s, kSum), 0, static_cast<size_t>(lanes) * 8);
    } else if (!columns && HasExtreme(slot.reduce, slot.type)) {
      ExtremeOf(scalars, s).Start(slot.reduce);
    } else {
      ForType(slot.type, [&](auto zero) {
        using T = decltype(zero);
        for (int i = 0; i < lanes; ++i)
          Values<T>(scalars, s, kValue)[i] = scalar::ReduceStart<T>(slot.reduce);
      });
    }
  }
}

void EndScalars(const ReductionPart& part, uint32_t which, char* scalars, bool columns, int lanes) {
  for (int s = 0; s < part.num_scalars; ++s) {
    const ScalarSlot& slot = part.scalars[s];
    if ((which >> s & 1) == 0) continue;
    if (!columns && HasExtreme(slot.reduce, slot.type))
      *Values<float>(scalars, s, kValue) = ExtremeOf(scalars, s).End(slot.reduce);
    if (slot.reduce != TapeOp::kReduceSum) continue;
    ForType(slot.type, [&](auto zero) {
      using T = decltype(zero);
      using Sum = typename SumOf<T>::type;
      const Sum* sum = Values<Sum>(scalars, s, kSum);
      T* value = Values<T>(scalars, s, kValue);
      for (int i = 0; i < lanes; ++i) value[i] = static_cast<T>(sum[i]);
    });
  }
}

void RunRowReduction(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const ReductionPart& part = static_cast<const ReductionPart&>(base);
  if (part.softmax != nullptr) return RunSoftmax(part, w, first, last);
  const Nest& nest = part.nest;
  TapeFrame frame;
  frame.worker = &w;
  frame.kept_stride = part.kept_stride;
  frame.known = frame.scalars = w.scratch + part.scalars_at;
  for (int s = 0; s < part.num_stages; ++s) BeginTape(part.stages[s].program, w);
  // Scalars that no stage has set yet are 0.
  for (int s = 0; s < part.num_scalars; ++s) std::memset(ScalarAt(frame.scalars, s, kValue), 0, 8);
  int64_t pos[kMaxNest] = {};
  Decode(nest, 0, nest.first[1], first, pos);
  for (int64_t row = first; row < last && !Stopped(w); ++row) {
    for (int s = 0; s < part.num_stages; ++s) {
      const StageProgram& stage = part.stages[s];
      if (stage.per_row) {
        for (int d = nest.first[1]; d < nest.first[2]; ++d) pos[d] = 0;
        frame.kept = w.scratch + part.kept_at;
        RunTape(stage.program, frame, pos, 1);
        continue;
      }
      StartScalars(part, stage.resets, frame.scalars, false, 1);
      int n = DecodeTile(nest, part.tiling, 0, pos);
      frame.position = 0;
      for (int64_t tile = 0;;) {
        frame.kept = w.scratch + part.kept_at + frame.position * 8;
        RunTape(stage.program, frame, pos, n);
        frame.position += n;
        if (++tile == part.tiling.tiles || Stopped(w)) break;
        n = NextTile(nest, part.tiling, pos);
      }
      EndScalars(part, stage.resets, frame.scalars, false, 1);
    }
    Advance(nest, 0, nest.first[1], pos);
  }
}

namespace {

// Whether the n columns of each element are contiguous, and so are the elements.
bool AreRows(const Access& access, const Nest& nest, int n) {
  if (!access.plain || access.lane.kind != LaneKind::kUnit) return false;
  int64_t steps[kMaxNest] = {};
  for (int i = 0; i < access.num_loops; ++i) steps[access.loop[i]] = access.step[i];
  int64_t expected = n;
  for (int d = nest.first[2] - 1; d >= nest.first[1]; --d) {
    if (nest.extent[d] == 1) continue;
    if (steps[d] != expected) return false;
    expected *= nest.extent[d];
  }
  return true;
}

// The number of elements that lanes may compute at once, if a stage only sums what it computes from
// contiguous numbers. Each column still adds its elements in order.
int64_t ElementsAtOnce(const ReductionPart& part, const StageProgram& stage, int n) {
  const Program& program = stage.program;
  for (uint32_t i = program.num_same; i < program.num_body; ++i) {
    const Inst& inst = program.body[i];
    const bool fits = inst.kind == InstKind::kLoad     ? AreRows(*inst.access, part.nest, n)
                      : inst.kind == InstKind::kReduce ? inst.op == TapeOp::kReduceSum
                                                       : inst.kind == InstKind::kOp && !inst.direct;
    if (!fits) return 1;
  }
  return kLanes / n;
}

}  // namespace

void RunColumnReduction(const PartProgram& base, Worker& w, int64_t first, int64_t last) {
  const ReductionPart& part = static_cast<const ReductionPart&>(base);
  const Nest& nest = part.nest;
  const int64_t length = nest.points[1];
  const int64_t element = part.tiling.chunk * part.tiling.inner * 8;  // bytes of a kept row per element
  TapeFrame frame;
  frame.worker = &w;
  frame.kept_stride = part.kept_stride;
  frame.columns = true;
  frame.known = frame.scalars = w.scratch + part.scalars_at;
  frame.kept = w.scratch + part.kept_at;
  for (int s = 0; s < part.num_stages; ++s) BeginTape(part.stages[s].program, w);
  for (int s = 0; s < part.num_scalars; ++s) std::memset(ScalarAt(frame.scalars, s, kValue), 0, kLanes * 8);
  int64_t pos[kMaxNest] = {};
  for (int64_t tile = first; tile < last && !Stopped(w); ++tile) {
    const int n = DecodeTile(nest, part.tiling, tile, pos);
    for (int s = 0; s < part.num_stages; ++s) {
      const StageProgram& stage = part.stages[s];
      for (int d = nest.first[1]; d < nest.first[2]; ++d) pos[d] = 0;
      frame.kept = w.scratch + part.kept_at;
      frame.position = 0;
      if (stage.per_row) {
        RunTape(stage.program, frame, pos, n);
        continue;
      }
      StartScalars(part, stage.resets, frame.scalars, true, n);
      const int inner = nest.first[2] - 1;
      const int64_t together = ElementsAtOnce(part, stage, n);
      frame.acc_lanes = n;
      for (int64_t k = 0, count; k < length && !Stopped(w); k += count) {
        count = Least(together, nest.extent[inner] - pos[inner]);
        frame.position = k;
        RunTape(stage.program, frame, pos, static_cast<int>(count) * n);
        frame.kept += count * element;
        pos[inner] += count - 1;
        Advance(nest, nest.first[1], nest.first[2], pos);
      }
      EndScalars(part, stage.resets, frame.scalars, true, n);
    }
  }
}

}  // namespace rondo::host::RONDO_ISA
