// Operands with guards and data-dependent indices.
#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {
namespace {

// Scratch of one level of indexing.
struct Level {
  int64_t* offsets;
  int64_t* index;
  uint8_t* mask;
};
Level LevelAt(const Worker& w, int depth) {
  char* at = w.scratch + static_cast<int64_t>(depth) * kAccessBytes;
  return {reinterpret_cast<int64_t*>(at), reinterpret_cast<int64_t*>(at + kLanes * 8),
          reinterpret_cast<uint8_t*>(at + kLanes * 16)};
}

void ReportIndex(Worker& w, const Access& a, const IndexTerm& term, int64_t value) {
  Report(w, {w.step, w.kernel, a.operand, value, term.extent});
}

// Whether v is in range, after wrapping.
bool InRange(const IndexTerm& term, int64_t* v) {
  if (term.wrap && *v < 0) *v += term.extent;
  return *v >= 0 && *v < term.extent;
}

// Writes the guards' coordinates at lane 0 to at[]. kAll: every lane passes. kSome: some may not.
Presence TestGuards(const Access& a, const int64_t* pos, int64_t* at) {
  Presence presence = Presence::kAll;
  for (int g = 0; g < a.num_guards; ++g) {
    const GuardTest& guard = a.guards[g];
    at[g] = guard.offset;
    for (int d = 0; d < guard.loops; ++d) at[g] += guard.step[d] * pos[guard.loop[d]];
    if (at[g] + guard.least >= 0 && at[g] + guard.greatest < guard.extent) continue;
    if (guard.lane.kind == LaneKind::kSame) return Presence::kNone;
    presence = Presence::kSome;
  }
  return presence;
}

// Sets mask[i] to 1 if lane i passes all guards, else to 0.
void MaskGuards(const Access& a, const int64_t* at, int n, uint8_t* mask) {
  std::memset(mask, 1, static_cast<size_t>(n));
  for (int g = 0; g < a.num_guards; ++g) {
    const GuardTest& guard = a.guards[g];
    const uint64_t extent = static_cast<uint64_t>(guard.extent);
    if (guard.lane.kind == LaneKind::kTable) {
      for (int i = 0; i < n; ++i) mask[i] &= static_cast<uint64_t>(at[g] + guard.lane.table[i]) < extent;
    } else {
      for (int i = 0; i < n; ++i) mask[i] &= static_cast<uint64_t>(at[g] + guard.lane.stride * i) < extent;
    }
  }
}

int64_t CeilDiv(int64_t a, int64_t b) { return b == 1 ? a : a > 0 ? (a + b - 1) / b : -(-a / b); }

// Narrows [*low, *high) to the lanes j of a run with 0 <= c + step * j < extent; empty at *low if there are
// none.
void NarrowRun(int64_t c, int64_t step, int64_t extent, int64_t* low, int64_t* high) {
  const int64_t first = *low;
  int64_t from = *low, to = *high;
  if (step == 0) {
    if (c < 0 || c >= extent) to = from;
  } else if (step > 0) {
    from = CeilDiv(-c, step);
    to = CeilDiv(extent - c, step);
  } else {
    from = CeilDiv(c - extent + 1, -step);
    to = CeilDiv(c + 1, -step);
  }
  if (from > *low) *low = from;
  if (to < *high) *high = to;
  if (*high <= *low) *low = *high = first;  // a coordinate may be far outside, with `from` beyond the run
}

// Loads run by run: the elements inside all guards are one piece of each run.
void LoadRuns(const Access& a, const Worker& w, int64_t base, const int64_t* at, int n, char* out,
              uint8_t* mask) {
  const int wide = NaturalType(a.dtype) == TapeType::kF32 ? 4 : 8;
  for (int64_t start = 0; start < n; start += a.run_lanes) {
    const int64_t lanes = Least<int64_t>(a.run_lanes, n - start);
    int64_t low = 0, high = lanes;
    for (int g = 0; g < a.num_guards; ++g) {
      const GuardTest& guard = a.guards[g];
      NarrowRun(at[g] + LaneOffset(guard.lane, start), guard.run_step, guard.extent, &low, &high);
    }
    a.fill(out + start * wide, a.absent, static_cast<int>(low));
    if (high > low) {
      const int64_t from = base + LaneOffset(a.lane, start) + low * a.run.stride;
      a.load_run(out + (start + low) * wide, Pointer(a, w, from), a.run, static_cast<int>(high - low));
    }
    a.fill(out + (start + high) * wide, a.absent, static_cast<int>(lanes - high));
    if (mask != nullptr) {
      std::memset(mask + start, 0, static_cast<size_t>(lanes));
      std::memset(mask + start + low, 1, static_cast<size_t>(high - low));
    }
  }
}

// Locates the lanes of a at pos. kAll: all at *base plus the lane pattern. kSome: at *base plus
// level.offsets[i] where level.mask[i] is set.
Presence Locate(const Access& a, Worker& w, const int64_t* pos, int n, int depth, const Level& level,
                int64_t* base) {
  *base = BaseOf(a, pos);
  int64_t at[kMaxLoops];
  Presence presence = TestGuards(a, pos, at);
  if (n <= 0 || presence == Presence::kNone) return Presence::kNone;
  if (presence == Presence::kSome) MaskGuards(a, at, n, level.mask);
  bool offsets = false;
  auto need_offsets = [&] {
    if (!offsets) {
      for (int i = 0; i < n; ++i) level.offsets[i] = LaneOffset(a.lane, i);
    }
    offsets = true;
    if (presence == Presence::kAll) std::memset(level.mask, 1, static_cast<size_t>(n));
    presence = Presence::kSome;
  };
  for (int t = 0; t < a.num_indices; ++t) {
    const IndexTerm& term = a.indices[t];
    LoadGuarded(*term.index, w, pos, term.same ? 1 : n, level.index, depth + 1, nullptr);
    if (term.same) {
      int64_t v = level.index[0];
      const int64_t met = v;
      if (!InRange(term, &v)) {
        bool any = presence == Presence::kAll;
        for (int i = 0; i < n && !any; ++i) any = level.mask[i] != 0;
        if (any && term.fault) ReportIndex(w, a, term, met);
        return Presence::kNone;
      }
      *base += term.stride * v;
      continue;
    }
    need_offsets();
    for (int i = 0; i < n; ++i) {
      if (level.mask[i] == 0) continue;
      int64_t v = level.index[i];
      const int64_t met = v;
      if (InRange(term, &v)) {
        level.offsets[i] += term.stride * v;
      } else {
        level.mask[i] = 0;
        if (term.fault) ReportIndex(w, a, term, met);
      }
    }
  }
  if (presence == Presence::kSome) need_offsets();
  return presence;
}

}  // namespace

void LoadByRuns(const Access& a, const char* from, int n, void* out) {
  const bool floats = a.dtype == DType::kF32;
  if (floats && a.run_lanes == kWidth && n % kWidth == 0) {
    for (int i = 0; i < n; i += kWidth) {
      const float* run = reinterpret_cast<const float*>(from) + a.lane.table[i];
      __builtin_prefetch(run + a.ahead);
      *reinterpret_cast<Vector*>(static_cast<float*>(out) + i) = *reinterpret_cast<const Vector*>(run);
    }
    return;
  }
  const int64_t wide = a.wide;
  for (int64_t start = 0; start < n; start += a.run_lanes) {
    const int64_t lanes = Least<int64_t>(a.run_lanes, n - start);
    const char* run = from + a.lane.table[start] * int64_t{a.size};
    char* to = static_cast<char*>(out) + start * wide;
    if (floats) {
      CopyFloats(reinterpret_cast<const float*>(run), lanes, reinterpret_cast<float*>(to));
    } else {
      a.load_run(to, run, a.run, static_cast<int>(lanes));
    }
  }
}

void StoreByRuns(const Access& a, char* to, int n, const void* in) {
  const bool floats = a.dtype == DType::kF32;
  const int64_t wide = a.wide;
  for (int64_t start = 0; start < n; start += a.run_lanes) {
    const int64_t lanes = Least<int64_t>(a.run_lanes, n - start);
    char* run = to + a.lane.table[start] * int64_t{a.size};
    const char* from = static_cast<const char*>(in) + start * wide;
    if (floats) {
      CopyFloats(reinterpret_cast<const float*>(from), lanes, reinterpret_cast<float*>(run));
    } else {
      a.store_run(run, from, a.run, static_cast<int>(lanes));
    }
  }
}

Presence LoadGuarded(const Access& a, Worker& w, const int64_t* pos, int n, void* out, int depth,
                     const uint8_t** mask) {
  if (a.plain) {
    LoadAt(a, Pointer(a, w, BaseOf(a, pos)), n, out);
    return Presence::kAll;
  }
  const Level level = LevelAt(w, depth);
  if (a.num_indices == 0) {
    int64_t at[kMaxLoops];
    const Presence presence = TestGuards(a, pos, at);
    if (presence == Presence::kAll) {
      LoadAt(a, Pointer(a, w, BaseOf(a, pos)), n, out);
    } else if (presence == Presence::kNone) {
      a.fill(out, a.absent, n);
    } else {
      LoadRuns(a, w, BaseOf(a, pos), at, n, static_cast<char*>(out), mask == nullptr ? nullptr : level.mask);
      if (mask != nullptr) *mask = level.mask;
    }
    return presence;
  }
  int64_t base;
  const Presence presence = Locate(a, w, pos, n, depth, level, &base);
  if (presence == Presence::kAll) {
    LoadAt(a, Pointer(a, w, base), n, out);
  } else if (presence == Presence::kNone) {
    a.fill(out, a.absent, n);
  } else {
    a.gather(out, Pointer(a, w, base), level.offsets, level.mask, a.absent, n);
    if (mask != nullptr) *mask = level.mask;
  }
  return presence;
}

void StoreGuarded(const Access& a, Worker& w, const int64_t* pos, int n, const void* in) {
  const Level level = LevelAt(w, 0);
  int64_t base;
  switch (Locate(a, w, pos, n, 0, level, &base)) {
    case Presence::kAll: StoreAt(a, Pointer(a, w, base), n, in); return;
    case Presence::kSome: a.scatter(Pointer(a, w, base), in, level.offsets, level.mask, n); return;
    case Presence::kNone: return;
  }
}

}  // namespace rondo::host::RONDO_ISA
