#include "formats/plan/check/footprint.h"

#include "formats/plan/access.h"

namespace rondo::check {
namespace {

// Whether a guard can fail at some point.
bool Cuts(const Part& part, const Guard& guard) {
  int64_t low = guard.offset, high = guard.offset;
  for (size_t d = 0; d < part.loops.size(); ++d) {
    const int64_t span = guard.strides[d] * (part.loops[d] - 1);
    (span < 0 ? low : high) += span;
  }
  return low < 0 || high >= guard.extent;
}

Footprint MakeFootprint(const Part& part, uint16_t index) {
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
    print.by_data |= Cuts(part, guard);
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
  for (size_t d = 0; d < part.loops.size(); ++d) {  // a loop of one round has any stride, and takes no step
    dims[d] = {part.loops[d] == 1 ? 0 : EffectiveStride(operand, d) * size, part.loops[d]};
  }
  print.box = StridedBox(base * size, size, dims, static_cast<int>(part.loops.size()));
  return print;
}

bool SameStrides(const Part& part, Span<const int64_t> a, Span<const int64_t> b) {
  for (size_t d = 0; d < part.loops.size(); ++d) {
    if (part.loops[d] != 1 && a[d] != b[d]) return false;
  }
  return true;
}

// Positions of the first and last instruction of `tape` that does `op` to `operand`; -1 if none does.
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
      prints[at++] = MakeFootprint(part, static_cast<uint16_t>(i));
    }
  }
  if (workspace) {
    prints[at].box = DenseBox(0, static_cast<int64_t>(kernel.workspace_bytes));
    prints[at].param = kernel.workspace_param;
    prints[at].writes = true;
  }
  return prints;
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
  if (!ReadByTapeOnly(part, read)) return false;
  for (Tape tape : {part.body, part.epilogue}) {
    const Uses loads = Find(tape, TapeOp::kLoad, read), stores = Find(tape, TapeOp::kStore, write);
    if (stores.first >= 0 && loads.last > stores.first) return false;
  }
  bool stored = false;  // by an earlier stage
  for (const Stage& stage : part.stages) {
    const Uses loads = Find(stage.tape, TapeOp::kLoad, read),
               stores = Find(stage.tape, TapeOp::kStore, write);
    if (loads.first >= 0 && (stored || (stores.first >= 0 && loads.last > stores.first))) return false;
    stored |= stores.first >= 0;
  }
  return true;
}

}  // namespace rondo::check
