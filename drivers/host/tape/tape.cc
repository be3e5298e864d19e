// Runs a tape over the lanes of one tile.
#include <atomic>

#include "core/scalar.h"
#include "drivers/host/exec/exec.h"
#include "drivers/host/reduction/scalars.h"

namespace rondo::host::RONDO_ISA {
namespace {

int SizeOf(TapeType t) { return t == TapeType::kF32 ? 4 : 8; }

void LoadIndex(const Inst& inst, const int64_t* pos, int n, char* to) {
  int64_t* out = reinterpret_cast<int64_t*>(to);
  const int64_t at = inst.fixed ? 0 : pos[inst.arg];
  if (inst.lane.kind == LaneKind::kTable) {
    for (int i = 0; i < n; ++i) out[i] = at + inst.lane.table[i];
  } else {
    for (int i = 0; i < n; ++i) out[i] = at + inst.lane.stride * i;
  }
}

// Copies n values of `size` bytes, or repeats the first n times.
void Spread(char* out, const char* from, int size, bool repeat, int n) {
  if (!repeat) {
    std::memcpy(out, from, static_cast<size_t>(n) * static_cast<size_t>(size));
  } else if (size == 4) {
    float value;
    std::memcpy(&value, from, 4);
    for (int i = 0; i < n; ++i) reinterpret_cast<float*>(out)[i] = value;
  } else {
    int64_t value;
    std::memcpy(&value, from, 8);
    for (int i = 0; i < n; ++i) reinterpret_cast<int64_t*>(out)[i] = value;
  }
}

// Collects accumulators of several rows, one row after another.
void GatherAccumulators(const TapeFrame& frame, const char* from, int n, char* out) {
  const float* acc = reinterpret_cast<const float*>(from);
  for (int i = 0; i < n; i += frame.acc_lanes, acc += frame.acc_row) {
    CopyFloats(acc, frame.acc_lanes, reinterpret_cast<float*>(out) + i);
  }
}

// Combines all lanes into one element, which other threads update at the same time.
void CombineLanes(TapeOp op, const float* x, int n, char* to) {
  float lanes = x[0];
  for (int i = 0; i < n; ++i) lanes = scalar::Combined(op, lanes, x[i]);
  std::atomic_ref<float> cell(*reinterpret_cast<float*>(to));
  float old = cell.load(std::memory_order_relaxed);
  while (true) {
    const float combined = scalar::Combined(op, old, lanes);
    if (std::memcmp(&combined, &old, sizeof(old)) == 0) return;
    if (cell.compare_exchange_weak(old, combined, std::memory_order_relaxed)) return;
  }
}

// Reports the first lane that is not finite.
template <typename T>
void AssertFinite(const Inst& inst, Worker& w, const char* from, int n) {
  const T* const x = reinterpret_cast<const T*>(from);
  int bad = 0;
  for (int i = 0; i < n; ++i) bad |= x[i] - x[i] != 0;
  if (__builtin_expect(bad == 0, 1)) return;
  int first = 0;
  while (x[first] - x[first] == 0) ++first;
  Report(w, {w.step, w.kernel, 0, 0, 0, inst.imm.i, static_cast<double>(x[first])});
}

}  // namespace

void BeginTape(const Program& program, Worker& w) {
  char* registers = w.scratch + program.registers_at;
  char** table = reinterpret_cast<char**>(w.scratch + program.table_at);
  for (uint32_t s = 0; s < program.slots; ++s)
    table[s] = registers + (static_cast<int64_t>(s) << program.slot_shift);
  for (uint32_t k = 0; k < program.num_once; ++k) {
    const Inst& inst = program.once[k];
    inst.fn({registers + inst.out, registers, registers, registers}, inst, kLanes);
  }
  constexpr int64_t kNowhere[kMaxNest] = {};
  for (uint32_t k = 0; k < program.num_same; ++k)
    LoadLanes(*program.body[k].access, w, kNowhere, kLanes, registers + program.body[k].out);
}

void RunTape(const Program& program, TapeFrame& frame, const int64_t* pos, int n) {
  Worker& w = *frame.worker;
  char* registers = w.scratch + program.registers_at;
  char** table = reinterpret_cast<char**>(w.scratch + program.table_at);
  const uint32_t shift = program.slot_shift;
  // Ops compute whole vectors: an operand's memory can be a register unless it ends within a vector.
  const bool whole = n % 16 == 0;
  const Inst* end = program.body + program.num_body;
  for (const Inst* inst = program.body + program.num_same; inst != end; ++inst) {
    char* out = registers + inst->out;
    char* const a = table[inst->a >> shift];
    char*& result = table[inst->out >> shift];
    switch (inst->kind) {
      case InstKind::kOp: {
        Registers r{out, a, table[inst->b >> shift], table[inst->c >> shift]};
        result = out;
        if (inst->direct && (whole || inst->exact)) {
          const Access& to = *(++inst)->access;
          r.out = Pointer(to, w, BaseOf(to, pos));
          (inst - 1)->fn(r, *(inst - 1), n);
          break;
        }
        inst->fn(r, *inst, n);
        break;
      }
      case InstKind::kLoad:
        if (inst->direct && (whole || inst->exact)) {
          result = Pointer(*inst->access, w, BaseOf(*inst->access, pos));
          break;
        }
        result = out;
        LoadLanes(*inst->access, w, pos, n, out);
        break;
      case InstKind::kStore: {
        const Access& to = *inst->access;
        if (to.plain) {
          StoreAt(to, Pointer(to, w, BaseOf(to, pos)), n, a);
        } else {
          StoreGuarded(to, w, pos, n, a);
        }
        break;
      }
      case InstKind::kIndex:
        result = out;
        LoadIndex(*inst, pos, n, out);
        break;
      case InstKind::kAcc: {
        char* acc = const_cast<char*>(frame.acc) + inst->arg * frame.acc_stride;
        const bool dense = n <= frame.acc_lanes || frame.acc_lanes == frame.acc_row;
        result = dense ? acc : out;  // the accumulators themselves have room for whole vectors
        if (!dense) GatherAccumulators(frame, acc, n, out);
        break;
      }
      case InstKind::kScalar:
        result = out;
        Spread(out, ScalarAt(const_cast<char*>(frame.known), inst->arg, kValue), SizeOf(inst->type),
               !frame.columns, n);
        break;
      case InstKind::kKept:
        result = out;
        Spread(out, frame.kept + inst->arg * frame.kept_stride, SizeOf(inst->type), false, n);
        break;
      case InstKind::kKeep:
        std::memcpy(frame.kept + inst->arg * frame.kept_stride, a,
                    static_cast<size_t>(n) * static_cast<size_t>(SizeOf(inst->of)));
        break;
      case InstKind::kSetScalar:
        std::memcpy(ScalarAt(frame.scalars, inst->arg, kValue), a,
                    static_cast<size_t>(n) * static_cast<size_t>(SizeOf(inst->of)));
        break;
      case InstKind::kReduce: ReduceLanes(*inst, frame, a, n); break;
      case InstKind::kReduceArg: ReduceArgLanes(*inst, frame, a, n); break;
      case InstKind::kCombine:
        CombineLanes(inst->op, reinterpret_cast<const float*>(a), n,
                     Pointer(*inst->access, w, BaseOf(*inst->access, pos)));
        break;
      case InstKind::kAssert:
        inst->of == TapeType::kF32 ? AssertFinite<float>(*inst, w, a, n)
                                   : AssertFinite<double>(*inst, w, a, n);
        break;
      case InstKind::kYield: break;
    }
  }
}

}  // namespace rondo::host::RONDO_ISA
