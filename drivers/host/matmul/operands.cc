#include "drivers/host/matmul/operands.h"

#include <cmath>

#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {
namespace {

constexpr DType WidestOf(TapeType t) {
  return t == TapeType::kF32 ? DType::kF32 : t == TapeType::kF64 ? DType::kF64 : DType::kI64;
}

}  // namespace

TapeInst MakeInst(TapeOp op, TapeType type, uint16_t arg, uint16_t a) {
  TapeInst inst;
  inst.op = op;
  inst.type = type;
  inst.arg = arg;
  inst.a = a;
  return inst;
}

uint16_t AppendCast(GrowingList<TapeInst>& tape, uint16_t from, TapeType type) {
  if (!tape.ok() || tape[from].type == type) return from;
  TapeInst cast = MakeInst(TapeOp::kCast, type, 0, from);
  cast.imm.i = static_cast<int64_t>(WidestOf(type));
  tape.push_back(cast);
  return static_cast<uint16_t>(tape.size() - 1);
}

const Access* Direct(const Access* access, const Nest& nest, int group, int64_t* step) {
  if (!access->plain || nest.first[group + 1] - nest.first[group] != 1) return nullptr;
  *step = 0;
  for (int i = 0; i < access->num_loops; ++i) {
    if (access->loop[i] == nest.first[group]) *step = access->step[i];
  }
  return access;
}

int64_t StoredPanels(const PartContext& c, const Access& rhs) {
  const Nest& nest = c.nest;
  const int first = nest.first[kN], last = nest.first[kN + 1] - 1;
  int64_t step = 0;
  if (rhs.dtype != DType::kF32 || !Linear(rhs, nest, kK, &step) || step != kStoredColumns ||
      nest.extent[last] != kStoredColumns || StepAlong(rhs, last) != 1) {
    return 0;
  }
  if (first == last) return nest.points[kK] * kStoredColumns;
  for (int d = first; d < last - 1; ++d) {
    if (StepAlong(rhs, d) != StepAlong(rhs, d + 1) * nest.extent[d + 1]) return 0;
  }
  const int64_t apart = StepAlong(rhs, last - 1);
  return apart > 0 ? apart : 0;
}

int64_t AccumulatorRow(const Tiling& tiling, const Engine& engine) {
  const int64_t lanes = tiling.chunk * tiling.inner, vector = engine.columns / engine.vectors;
  return (lanes + vector - 1) / vector * vector;
}

uint16_t LeftOperand(const PartContext& c) {
  return c.part.skeleton == Skeleton::kConvolution && !c.channels_last ? c.part.rhs[0] : c.part.lhs;
}
uint16_t RightOperand(const PartContext& c, int j) {
  return c.part.skeleton == Skeleton::kConvolution && !c.channels_last ? c.part.lhs : c.part.rhs[j];
}

int NumRhs(const PartContext& c) {
  return c.part.skeleton == Skeleton::kConvolution && !c.channels_last ? 1
                                                                       : static_cast<int>(c.part.rhs.size());
}

GrowingList<TapeInst> LhsTape(const PartContext& c) {
  const uint16_t lhs = LeftOperand(c);
  GrowingList<TapeInst> tape;
  uint16_t result = 0;
  if (c.part.prologue.empty()) {
    tape.push_back(MakeInst(TapeOp::kLoad, NaturalType(c.part.operands[lhs].dtype), lhs, 0));
  } else {
    for (const TapeInst& inst : c.part.prologue) {
      if (inst.op == TapeOp::kYield) {
        result = inst.a;
        break;
      }
      tape.push_back(inst);
    }
  }
  result = AppendCast(tape, result, c.part.acc_type);
  tape.push_back(MakeInst(TapeOp::kYield, c.part.acc_type, 0, result));
  return tape;
}

int64_t RowsOfLines(const PartContext& c, double work, int64_t most) {
  const Nest& nest = c.nest;
  const int64_t rows = nest.points[kM], line = nest.extent[nest.first[kM + 1] - 1],
                others = Bytes(nest.points[kOuter], c.tiling.tiles), shares = c.sharing.Shares(work);
  if (most < line) return RowsOfBlock({rows, most, 1, 1, others}, shares);
  return line * RowsOfBlock({rows / line, most / line, 1, 0, others}, shares);
}

namespace {

// Sets `end` if the epilogue is one: a chain of additions, then maxima, then minima, from the accumulator to
// the only store.
Status FindBlockEnd(PartContext& c, BlockEnd* end) {
  if (c.part.acc_type != TapeType::kF32 || c.part.combine == Combine::kMean) return Status::Ok();
  const Tape tape = c.part.epilogue;
  BlockEnd found;
  const auto find = [&](uint16_t operand, int64_t* row, const Access** out) -> Status {
    const Access* access = nullptr;
    RONDO_RETURN_IF_ERROR(c.BuildAccess(operand, c.tiling, &access));
    if (access->dtype == DType::kF32 && access->lane.kind == LaneKind::kUnit &&
        Linear(*access, c.nest, kM, row)) {
      *out = access;
    }
    return Status::Ok();
  };
  size_t chain = tape.size();  // the instruction with the result so far
  for (size_t k = 0; k < tape.size(); ++k) {
    const TapeInst& inst = tape[k];
    if (found.result != nullptr) return Status::Ok();
    if (inst.op == TapeOp::kLoad || inst.op == TapeOp::kConst) continue;
    if (inst.op == TapeOp::kAcc) {
      if (inst.arg != 0 || chain != tape.size()) return Status::Ok();
    } else if (inst.op == TapeOp::kStore) {
      if (inst.a != chain) return Status::Ok();
      RONDO_RETURN_IF_ERROR(find(inst.arg, &found.row, &found.result));
      if (found.result == nullptr) return Status::Ok();
    } else {
      if (Inputs(inst.op) != 2 || inst.type != TapeType::kF32 || (inst.a == chain) == (inst.b == chain))
        return Status::Ok();
      const TapeInst& other = tape[inst.a == chain ? inst.b : inst.a];
      const float limit = other.op == TapeOp::kConst ? static_cast<float>(other.imm.f) : 0;
      if (inst.op == TapeOp::kAdd && other.op == TapeOp::kLoad && found.added < kMostAdded &&
          found.low == -HUGE_VALF && found.high == HUGE_VALF) {
        const Access*& access = found.add[found.added];
        RONDO_RETURN_IF_ERROR(find(other.arg, &found.add_row[found.added++], &access));
        if (access == nullptr) return Status::Ok();
      } else if (inst.op == TapeOp::kMax && other.op == TapeOp::kConst && found.high == HUGE_VALF) {
        found.low = limit > found.low ? limit : found.low;
      } else if (inst.op == TapeOp::kMin && other.op == TapeOp::kConst) {
        found.high = limit < found.high ? limit : found.high;
      } else {
        return Status::Ok();
      }
      if (limit != limit) return Status::Ok();
    }
    chain = k;
  }
  *end = found;
  return Status::Ok();
}

}  // namespace

Status BuildEpilogue(PartContext& c, MatmulPart* p) {
  const Nest& nest = c.nest;
  Tiling tiling = c.tiling;
  const int64_t n = nest.points[kN];
  if (!c.linear && n * 2 <= kLanes && c.tiling.tiles == 1) {
    tiling.first = nest.first[kM];
    tiling.split = nest.first[kN] - 1;
    tiling.inner = n;
    int64_t rows = kLanes / n, step = 1;
    while (step * n % 16 != 0) step *= 2;
    if (step < rows) rows -= rows % step;  // so that they end with a vector
    tiling.chunk = rows < nest.extent[tiling.split] ? rows : nest.extent[tiling.split];
    p->epilogue_rows = tiling.chunk;
  }
  TapeUse use;
  use.loads_once = p->epilogue_rows > 1 && c.part.acc_type == TapeType::kF32;
  RONDO_RETURN_IF_ERROR(BuildTape(c, c.part.epilogue, tiling, use, &p->epilogue));
  return NumRhs(c) <= 1 ? FindBlockEnd(c, &p->end) : Status::Ok();
}

Status BuildLeft(PartContext& c, LeftSide* left) {
  const Nest& nest = c.nest;
  left->tiling = MakeTiling(nest, nest.first[kK], nest.first[kK + 1], kLanes, c.linear);
  const GrowingList<TapeInst> lhs = LhsTape(c);
  if (!lhs.ok()) return c.NoMemory();
  RONDO_RETURN_IF_ERROR(BuildTape(c, Tape(lhs.data(), lhs.size()), left->tiling, {}, &left->program));
  if (!c.part.prologue.empty() || !WidensToF32(c.part.operands[LeftOperand(c)].dtype)) return Status::Ok();
  RONDO_RETURN_IF_ERROR(c.BuildAccess(LeftOperand(c), left->tiling, &left->load));
  constexpr int64_t kRowsAhead = 8;
  Access& access = const_cast<Access&>(*left->load);  // made by this builder, not yet shared
  for (int i = 0; i < access.num_loops; ++i) {
    if (access.loop[i] + 1 == nest.first[kM + 1]) access.ahead = kRowsAhead * access.step[i];
  }
  return Status::Ok();
}

bool IsMatrix(const PartContext& c, const Access& access) {
  const Nest& nest = c.nest;
  int64_t row = 0, column = 0;
  return access.dtype == DType::kF32 && access.plain && Linear(access, nest, kM, &row) &&
         Linear(access, nest, kN, &column) && (row == nest.points[kN] || nest.points[kM] == 1) &&
         (column == 1 || nest.points[kN] == 1);
}

Status FindWritten(PartContext& c, MatmulPart* p) {
  const Nest& nest = c.nest;
  int found = -1;
  for (size_t i = 0; i < c.part.operands.size(); ++i) {
    const Operand& operand = c.part.operands[i];
    if (operand.mode == Mode::kRead || !IsFloat(operand.dtype)) continue;
    if (found >= 0 || operand.dtype != DType::kF32) return Status::Ok();
    found = static_cast<int>(i);
  }
  if (found < 0 || nest.points[0] != 1) return Status::Ok();
  const Access* access = nullptr;
  RONDO_RETURN_IF_ERROR(c.BuildAccess(static_cast<uint16_t>(found), c.tiling, &access));
  if (IsMatrix(c, *access)) p->written = access;
  return Status::Ok();
}

}  // namespace rondo::host
