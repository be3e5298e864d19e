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

// Remembers the first fault of the launch's stream.
void Report(Worker& w, const Access& a, const IndexTerm& term, int64_t value) {
  int none = 0;
  if (!w.fault->state.compare_exchange_strong(none, 1)) return;
  w.fault->fault = {w.step, w.kernel, a.operand, value, term.extent};
  w.fault->state.store(2);
}

// Whether v is in range, after wrapping.
bool InRange(const IndexTerm& term, int64_t* v) {
  if (term.wrap && *v < 0) *v += term.extent;
  return *v >= 0 && *v < term.extent;
}

// Clears the mask where a guard fails. kAll: the mask is untouched and need not be looked at.
Presence TestGuards(const Access& a, const int64_t* pos, int n, uint8_t* mask) {
  bool some = false;
  for (int g = 0; g < a.num_guards; ++g) {
    const GuardTest& guard = a.guards[g];
    int64_t at = guard.offset;
    for (int d = 0; d < guard.loops; ++d) at += guard.strides[d] * pos[d];
    if (at + guard.least >= 0 && at + guard.greatest < guard.extent) continue;
    if (guard.lane.kind == LaneKind::kSame) return Presence::kNone;
    if (!some) std::memset(mask, 1, static_cast<size_t>(n));
    some = true;
    const uint64_t extent = static_cast<uint64_t>(guard.extent);
    if (guard.lane.kind == LaneKind::kTable) {
      for (int i = 0; i < n; ++i) mask[i] &= static_cast<uint64_t>(at + guard.lane.table[i]) < extent;
    } else {
      for (int i = 0; i < n; ++i) mask[i] &= static_cast<uint64_t>(at + guard.lane.stride * i) < extent;
    }
  }
  return some ? Presence::kSome : Presence::kAll;
}

// Finds the lanes of a at pos. kAll: all at *base plus the lane pattern. kSome: at *base plus
// level.offsets[i] where level.mask[i].
Presence Locate(const Access& a, Worker& w, const int64_t* pos, int n, int depth, const Level& level,
                int64_t* base) {
  *base = BaseOf(a, pos);
  Presence presence = TestGuards(a, pos, n, level.mask);
  if (presence == Presence::kNone) return presence;
  if (n <= 0) return Presence::kNone;
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
        if (any && term.fault) Report(w, a, term, met);
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
        if (term.fault) Report(w, a, term, met);
      }
    }
  }
  if (presence == Presence::kSome) need_offsets();
  return presence;
}

}  // namespace

Presence LoadGuarded(const Access& a, Worker& w, const int64_t* pos, int n, void* out, int depth,
                     const uint8_t** mask) {
  if (a.plain) {
    a.load(out, Pointer(a, w, BaseOf(a, pos)), a.lane, n);
    return Presence::kAll;
  }
  const Level level = LevelAt(w, depth);
  int64_t base;
  const Presence presence = Locate(a, w, pos, n, depth, level, &base);
  if (presence == Presence::kAll) {
    a.load(out, Pointer(a, w, base), a.lane, n);
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
    case Presence::kAll: a.store(Pointer(a, w, base), in, a.lane, n); return;
    case Presence::kSome: a.scatter(Pointer(a, w, base), in, level.offsets, level.mask, n); return;
    case Presence::kNone: return;
  }
}

}  // namespace rondo::host::RONDO_ISA
