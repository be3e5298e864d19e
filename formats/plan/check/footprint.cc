#include "formats/plan/check/footprint.h"

#include "core/guard.h"
#include "formats/plan/access.h"

namespace rondo::check {

Footprint FootprintOf(const Part& part, uint16_t index) {
  const Operand& operand = part.operands[index];
  const int64_t size = ByteSize(operand.dtype);
  Footprint print;
  print.part = &part;
  print.operand = index;
  print.param = operand.param;
  print.reads = operand.mode != Mode::kWrite;
  print.writes = operand.mode != Mode::kRead;
  print.by_data = !operand.indirects.empty();
  int64_t base = operand.offset;
  for (const Guard& guard : operand.guards) {
    print.by_data |= !AlwaysHolds(guard, part.loops);
    base += guard.stride * guard.offset;
  }
  ElementRange range;
  if (!Reach(part, operand, &range)) range = {};  // VerifyPlan has refused it
  if (print.by_data || range.empty()) {
    print.box = DenseBox(range.first * size, range.end * size);
    print.box.exact = false;
    return print;
  }
  BoxDim dims[kMaxLoops];
  for (size_t d = 0; d < part.loops.size(); ++d) {  // the stride of a loop of one round has no effect
    dims[d] = {part.loops[d] == 1 ? 0 : EffectiveStride(operand, d) * size, part.loops[d]};
  }
  print.box = StridedBox(base * size, size, dims, static_cast<int>(part.loops.size()));
  return print;
}

namespace {

bool SameStrides(const Part& part, Span<const int64_t> a, Span<const int64_t> b) {
  for (size_t d = 0; d < part.loops.size(); ++d) {
    if (part.loops[d] != 1 && a[d] != b[d]) return false;
  }
  return true;
}

// The positions of the first and last instruction of `tape` that does `op` to `operand`; -1 if there is none.
struct Uses {
  int first = -1, last = -1;
};
Uses Find(Tape tape, TapeOp op, uint16_t operand) {
  Uses uses;
  for (size_t k = 0; k < tape.size(); ++k) {
    if (tape[k].op != op || tape[k].arg != operand) continue;
    if (uses.first < 0) uses.first = static_cast<int>(k);
    uses.last = static_cast<int>(k);
  }
  return uses;
}

}  // namespace

Span<Footprint> Footprints(const Kernel& kernel, Arena& scratch) {
  const bool workspace = kernel.workspace_param != kNoOperand;
  size_t count = workspace ? 1 : 0;
  for (const Part& part : kernel.parts) count += part.operands.size();
  Span<Footprint> prints = scratch.New<Footprint>(count);
  if (prints.data() == nullptr) return prints;
  size_t at = 0;
  for (const Part& part : kernel.parts) {
    for (size_t i = 0; i < part.operands.size(); ++i) {
      prints[at++] = FootprintOf(part, static_cast<uint16_t>(i));
    }
  }
  if (workspace) {
    prints[at].box = DenseBox(0, static_cast<int64_t>(kernel.workspace_bytes));
    prints[at].param = kernel.workspace_param;
    prints[at].writes = true;
  }
  return prints;
}

namespace {

// The coordinates of one guard that exist, if they form an arithmetic progression and no other address
// depends on the guard's loops.
struct Progression {
  int64_t first = 0, stride = 1, count = 0;
};

// No coordinate reaches this far.
int64_t ExtentOf(const Guard& guard) { return guard.extent < 2 * kMaxReach ? guard.extent : 2 * kMaxReach; }

// Narrows [low, high] to the i for which 0 <= rest + stride * i < extent.
[[gnu::noinline]] void Narrow(int64_t rest, int64_t stride, int64_t extent, int64_t* low, int64_t* high) {
  if (stride < 0) {
    stride = -stride;
    rest = extent - 1 - rest;
  }
  const int64_t most = extent - 1 - rest;
  const int64_t first = -rest / stride + (-rest % stride > 0), last = most / stride - (most % stride < 0);
  if (first > *low) *low = first;
  if (last < *high) *high = last;
}

// Cuts a part's loops down to the points that exist for an operand, until no guard cuts any further.
class Piecer {
 public:
  Piecer(const Footprint& print, Work& work, const Visit<Box>& visit)
      : part_(*print.part),
        operand_(part_.operands[print.operand]),
        size_(ByteSize(operand_.dtype)),
        work_(work),
        visit_(visit) {}

  bool Run() {
    State all;
    for (size_t d = 0; d < part_.loops.size(); ++d) all.high[d] = part_.loops[d] - 1;
    return From(0, all);
  }

 private:
  static constexpr int kMostFolded = 8;
  struct State {
    int64_t low[kMaxLoops] = {}, high[kMaxLoops] = {};
    LoopMask folded_loops = 0;
    int folded = 0;  // guards, with the loops that only they depend on, as progressions
    size_t guards[kMostFolded];
    Progression of[kMostFolded];
  };

  bool Fold(size_t g, const State& state, LoopMask loops, Progression* out) const;
  bool From(size_t g, State state);
  bool Emit(const State& state);

  const Part& part_;
  const Operand& operand_;
  const int64_t size_;
  Work& work_;
  const Visit<Box>& visit_;
};

bool Piecer::Fold(size_t g, const State& state, LoopMask loops, Progression* out) const {
  const Guard& guard = operand_.guards[g];
  BoxDim dims[kMaxLoops];
  int count = 0;
  int64_t base = guard.offset;
  for (size_t d = 0; d < part_.loops.size(); ++d) {
    if (guard.strides[d] == 0) continue;
    base += guard.strides[d] * state.low[d];
    if ((loops >> d & 1) == 0) continue;
    dims[count++] = {guard.strides[d], state.high[d] - state.low[d] + 1};
    if (operand_.strides[d] != 0) return false;
    for (size_t k = 0; k < operand_.guards.size(); ++k) {
      if (k != g && operand_.guards[k].strides[d] != 0) return false;
    }
  }
  const Box values = StridedBox(base, 1, dims, count);
  const BoxDim& inner = values.dims[0];
  if (!values.exact || values.rank > 2 || (values.rank == 2 && inner.extent != 1)) return false;
  const BoxDim& step = values.dims[values.rank - 1];
  int64_t least = 0, most = step.extent - 1;
  Narrow(values.base, step.stride, ExtentOf(guard), &least, &most);
  *out = {values.base + least * step.stride, step.stride, most - least + 1};
  return true;
}

// Emits the remaining points of `state`, from guard `g` on.
bool Piecer::From(size_t g, State state) {
  for (; g < operand_.guards.size(); ++g) {
    const Guard& guard = operand_.guards[g];
    if (!work_.Spend(32)) return false;
    int64_t least = guard.offset, most = guard.offset;
    LoopMask loops = 0;
    size_t shortest = 0;
    for (size_t d = 0; d < part_.loops.size(); ++d) {
      const int64_t stride = guard.strides[d];
      if (stride == 0) continue;
      least += stride * (stride > 0 ? state.low[d] : state.high[d]);
      most += stride * (stride > 0 ? state.high[d] : state.low[d]);
      if (state.low[d] == state.high[d]) continue;
      const int64_t extent = state.high[d] - state.low[d];
      if (loops == 0 || extent < state.high[shortest] - state.low[shortest]) shortest = d;
      loops |= LoopMask{1} << d;
    }
    if (most < 0 || least >= guard.extent) return true;  // no point exists
    if (least >= 0 && most < guard.extent) continue;
    if ((loops & (loops - 1)) == 0) {  // one loop: its range is narrowed
      const int64_t stride = guard.strides[shortest];
      int64_t &low = state.low[shortest], &high = state.high[shortest];
      Narrow((stride > 0 ? least : most) - stride * low, stride, ExtentOf(guard), &low, &high);
      if (low > high) return true;
      continue;
    }
    Progression progression;
    if (state.folded < kMostFolded && work_.Spend(operand_.guards.size()) &&
        Fold(g, state, loops, &progression)) {
      if (progression.count <= 0) return true;
      state.guards[state.folded] = g;
      state.of[state.folded++] = progression;
      state.folded_loops |= loops;
      continue;
    }
    // Goes through the shortest loop round by round.
    State one = state;
    for (int64_t i = state.low[shortest]; i <= state.high[shortest]; ++i) {
      one.low[shortest] = one.high[shortest] = i;
      if (!From(g, one)) return false;
    }
    return true;
  }
  return Emit(state);
}

bool Piecer::Emit(const State& state) {
  constexpr size_t kMostDims = 32;
  BoxDim dims[kMostDims];
  int count = 0;
  int64_t base = operand_.offset;
  if (operand_.indirects.size() > kMostDims - kMaxLoops || !work_.Spend(64 + 16 * operand_.guards.size()))
    return false;
  int64_t strides[kMaxLoops];
  for (size_t d = 0; d < part_.loops.size(); ++d) {
    strides[d] = state.low[d] == state.high[d] ? 0 : operand_.strides[d];
    base += operand_.strides[d] * state.low[d];
  }
  int folded = 0;
  for (size_t g = 0; g < operand_.guards.size(); ++g) {
    const Guard& guard = operand_.guards[g];
    if (folded < state.folded && state.guards[folded] == g) {
      const Progression& p = state.of[folded++];
      base += guard.stride * p.first;
      dims[count++] = {guard.stride * p.stride * size_, p.count};
      continue;
    }
    base += guard.stride * guard.offset;
    for (size_t d = 0; d < part_.loops.size(); ++d) {
      if (guard.strides[d] == 0) continue;
      base += guard.stride * (guard.strides[d] * state.low[d]);
      if (state.low[d] != state.high[d]) strides[d] += guard.stride * guard.strides[d];
    }
  }
  for (size_t d = 0; d < part_.loops.size(); ++d) {
    if ((state.folded_loops >> d & 1) == 0)
      dims[count++] = {strides[d] * size_, state.high[d] - state.low[d] + 1};
  }
  for (const Indirect& indirect : operand_.indirects)
    dims[count++] = {indirect.stride * size_, indirect.extent};
  const Box piece = StridedBox(base * size_, size_, dims, count);
  return piece.exact && visit_(piece);
}

}  // namespace

bool ForPieces(const Footprint& print, Work& work, const Visit<Box>& visit) {
  return print.by_data ? Piecer(print, work, visit).Run() : visit(print.box);
}

bool PiecesApart(const Footprint& a, int64_t from, const Footprint& b, int64_t other, Work& work) {
  return (a.by_data || b.by_data) && ForPieces(a, work, [&](const Box& x) {
           return ForPieces(
               b, work, [&](const Box& y) { return !MayShare(Shifted(x, from), Shifted(y, other), work); });
         });
}

bool SameAccess(const Part& part, uint16_t a, uint16_t b, int64_t shift) {
  const Operand &x = part.operands[a], &y = part.operands[b];
  const int64_t size = ByteSize(x.dtype);
  if (size != ByteSize(y.dtype) || x.offset * size != y.offset * size + shift) return false;
  if (!SameStrides(part, x.strides, y.strides)) return false;
  if (x.guards.size() != y.guards.size() || x.indirects.size() != y.indirects.size()) return false;
  for (size_t i = 0; i < x.guards.size(); ++i) {
    const Guard &g = x.guards[i], &h = y.guards[i];
    if (g.stride != h.stride || g.offset != h.offset || g.extent != h.extent) return false;
    if (!SameStrides(part, g.strides, h.strides)) return false;
  }
  for (size_t i = 0; i < x.indirects.size(); ++i) {
    const Indirect &g = x.indirects[i], &h = y.indirects[i];
    if (g.operand != h.operand || g.wrap != h.wrap || g.stride != h.stride || g.extent != h.extent)
      return false;
  }
  return true;
}

bool ReadByTapeOnly(const Part& part, uint16_t operand) {
  for (uint16_t role : {part.lhs, part.keys, part.values, part.mask, part.limit}) {
    if (role == operand) return false;
  }
  for (uint16_t rhs : part.rhs) {
    if (rhs == operand) return false;
  }
  for (const Operand& other : part.operands) {
    for (const Indirect& indirect : other.indirects) {
      if (indirect.operand == operand) return false;
    }
  }
  return Find(part.prologue, TapeOp::kLoad, operand).first < 0;
}

bool LoadedBeforeStored(const Part& part, uint16_t read, uint16_t write) {
  bool good = ReadByTapeOnly(part, read), stored = false;  // by an earlier stage
  ForEachTape(part, [&](Tape tape) {
    const Uses loads = Find(tape, TapeOp::kLoad, read), stores = Find(tape, TapeOp::kStore, write);
    if (loads.first >= 0 && (stored || (stores.first >= 0 && loads.last > stores.first))) good = false;
    stored |= stores.first >= 0;
    for (const TapeInst& inst : tape) {  // other points may combine at any time
      if (Combines(inst.op) && inst.arg == write) good = false;
    }
  });
  return good;
}

}  // namespace rondo::check
