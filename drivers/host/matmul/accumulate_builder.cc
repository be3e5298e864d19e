// Matmuls and pools of any operands: lanes along n, one step of k at a time (Variant::kAccumulate).
#include "drivers/host/matmul/matmul_builders.h"
#include "drivers/host/matmul/operands.h"
#include "drivers/host/tape/tape_builder.h"

namespace rondo::host {

Status BuildAccumulate(PartContext& c, PartProgram** out) {
  const Nest& nest = c.nest;
  AccumulatePart* p = c.New<AccumulatePart>(Variant::kAccumulate);
  if (p == nullptr) return c.NoMemory();
  *out = p;
  p->tiling = c.tiling;
  p->work = MatmulWork(nest).Accumulated();
  p->acc_type = c.part.acc_type;
  p->combine = c.part.combine;
  p->pool = IsPool(c);
  RONDO_RETURN_IF_ERROR(BuildTape(c, c.part.epilogue, c.tiling, {}, &p->epilogue));
  p->tasks = nest.points[kOuter] * nest.points[kM] * c.tiling.tiles;
  p->acc_stride = kLanes * 8;
  if (p->pool) {
    p->acc_at = c.Take(kLanes * 8);
    p->count_at = c.Take(kLanes * 8);
    p->temp_at = c.Take(kLanes * 8);
    return c.BuildAccess(c.part.lhs, c.tiling, &p->rhs[0].by_n);
  }
  GrowingList<TapeInst> tape = LhsTape(c);
  if (!tape.ok()) return c.NoMemory();
  p->num_rhs = NumRhs(c);
  TapeUse use;
  use.pinned = p->num_rhs;
  use.keep.push_back(tape.back().a);
  tape.pop_back();
  for (int j = 0; j < p->num_rhs; ++j) {
    const uint16_t operand = RightOperand(c, j);
    tape.push_back(MakeInst(TapeOp::kLoad, NaturalType(c.part.operands[operand].dtype), operand, 0));
    use.keep.push_back(AppendCast(tape, static_cast<uint16_t>(tape.size() - 1), c.part.acc_type));
  }
  if (!tape.ok()) return c.NoMemory();
  GrowingList<uint32_t> at;
  use.at = &at;
  Program& program = p->step;
  RONDO_RETURN_IF_ERROR(BuildTape(c, Tape(tape.data(), tape.size()), c.tiling, use, &program));
  GrowingList<Inst> once(program.once, program.num_once);
  GrowingList<Inst> body(program.body, program.num_body);
  for (int j = 0; j < p->num_rhs; ++j) {
    Inst add;
    add.op = TapeOp::kFma;
    add.type = add.of = c.part.acc_type;
    add.fn = c.engine.find_op(TapeOp::kFma, c.part.acc_type, c.part.acc_type);
    add.a = at[use.keep[0]];
    add.b = at[use.keep[static_cast<size_t>(j) + 1]];
    add.out = add.c = static_cast<uint32_t>(j) * program.slot_bytes;
    body.push_back(add);
  }
  p->acc_at = program.registers_at;
  p->acc_stride = program.slot_bytes;
  return FinishProgram(c, once, body, &program);
}

}  // namespace rondo::host
