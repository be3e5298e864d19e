// Running a tape over the lanes of one tile, and the map skeleton, which is nothing else.
#include "drivers/host/exec/exec.h"

namespace rondo::host::RONDO_ISA {
namespace {

int SizeOf(TapeType t) { return t == TapeType::kF32 ? 4 : 8; }

void LoadIndex(const Inst& inst, const int64_t* pos, int n, char* registers) {
  int64_t* out = reinterpret_cast<int64_t*>(registers + inst.out);
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

}  // namespace

void BeginTape(const Program& program, Worker& w) {
  char* registers = w.scratch + program.registers_at;
  for (uint32_t k = 0; k < program.num_once; ++k) program.once[k].fn(registers, program.once[k], kLanes);
}

void RunTape(const Program& program, TapeFrame& frame, const int64_t* pos, int n) {
  Worker& w = *frame.worker;
  char* registers = w.scratch + program.registers_at;
  const Inst* end = program.body + program.num_body;
  for (const Inst* inst = program.body; inst != end; ++inst) {
    switch (inst->kind) {
      case InstKind::kOp: inst->fn(registers, *inst, n); break;
      case InstKind::kLoad: LoadLanes(*inst->access, w, pos, n, registers + inst->out); break;
      case InstKind::kStore: {
        const Access& a = *inst->access;
        if (a.plain) {
          a.store(Pointer(a, w, BaseOf(a, pos)), registers + inst->a, a.lane, n);
        } else {
          StoreGuarded(a, w, pos, n, registers + inst->a);
        }
        break;
      }
      case InstKind::kIndex: LoadIndex(*inst, pos, n, registers); break;
      case InstKind::kAcc:
        std::memcpy(registers + inst->out, frame.acc + inst->arg * frame.acc_stride,
                    static_cast<size_t>(n) * frame.acc_size);
        break;
      case InstKind::kScalar:
        Spread(registers + inst->out, ScalarAt(frame.scalars, inst->arg, kValue), SizeOf(inst->type),
               !frame.columns, n);
        break;
      case InstKind::kKept:
        Spread(registers + inst->out, frame.kept + inst->arg * frame.part->kept_stride, SizeOf(inst->type),
               false, n);
        break;
      case InstKind::kKeep:
        std::memcpy(frame.kept + inst->arg * frame.part->kept_stride, registers + inst->a,
                    static_cast<size_t>(n) * static_cast<size_t>(SizeOf(inst->of)));
        break;
      case InstKind::kSetScalar:
        std::memcpy(ScalarAt(frame.scalars, inst->arg, kValue), registers + inst->a,
                    static_cast<size_t>(n) * static_cast<size_t>(SizeOf(inst->of)));
        break;
      case InstKind::kReduce: ReduceLanes(*inst, frame, registers + inst->a, n); break;
      case InstKind::kReduceArg: ReduceArgLanes(*inst, frame, registers + inst->a, n); break;
      case InstKind::kYield: break;
    }
  }
}

void RunMap(const PartProgram& part, Worker& w, int64_t first, int64_t last) {
  if (part.sequential) last = part.tiling.tiles;
  if (first >= last) return;
  int64_t pos[kMaxNest] = {};
  TapeFrame frame;
  frame.worker = &w;
  BeginTape(part.program, w);
  int n = DecodeTile(part.nest, part.tiling, first, pos);
  for (int64_t tile = first;;) {
    RunTape(part.program, frame, pos, n);
    if (++tile == last) return;
    n = NextTile(part.nest, part.tiling, pos);
  }
}

}  // namespace rondo::host::RONDO_ISA
