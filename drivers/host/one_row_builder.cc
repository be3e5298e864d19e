// Reductions of a single row to the least and greatest of floats: their elements are shared out among threads
// (Path::kOneRow), where else each row is one thread's.
#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

bool IsF32Extreme(const TapeInst& inst, Tape tape) {
  return (inst.op == TapeOp::kReduceMax || inst.op == TapeOp::kReduceMin) && inst.a < tape.size() &&
         tape[inst.a].type == TapeType::kF32;
}

}  // namespace

bool PartBuilder::FitsOneRow() const {
  const Nest& nest = out_->nest;
  if (nest.points[0] != 1 || part_.stages.empty() || part_.stages[0].per_row) return false;
  bool any = false;
  for (const Stage& stage : part_.stages) {
    for (const TapeInst& inst : stage.tape) {
      if (!Reduces(inst.op)) continue;
      if (stage.per_row || !IsF32Extreme(inst, stage.tape)) return false;
      any = true;
    }
  }
  return any;
}

// Whether floats of the row lie one behind the other.
bool PartBuilder::IsRun(const Access& access) const {
  int64_t step = 0;
  return access.plain && Linear(access, out_->nest, 1, &step) && step == 1;
}

// What the stage does without its tape.
void PartBuilder::FindStraight(StageProgram* stage) const {
  const Program& program = stage->program;
  const Inst* const body = program.body;
  const uint32_t count = program.num_body;
  if (count >= 3 && stage->resets == 0) {
    const Inst &load = body[count - 3], &op = body[count - 2], &store = body[count - 1];
    bool straight = load.kind == InstKind::kLoad && load.direct && load.access->dtype == DType::kF32 &&
                    op.kind == InstKind::kOp && op.direct && op.exact && store.kind == InstKind::kStore &&
                    op.a == load.out && op.b != load.out && op.c != load.out && IsRun(*load.access) &&
                    IsRun(*store.access) && store.access->size == 1;
    for (uint32_t i = 0; i + 3 < count; ++i) straight &= body[i].kind == InstKind::kScalar;
    if (!straight) return;
    stage->floats = load.access;
    stage->quantises = true;
    return;
  }
  if (count < 2 || body[0].kind != InstKind::kLoad || body[0].access->dtype != DType::kF32 ||
      !IsRun(*body[0].access))
    return;
  int least = -1, greatest = -1;
  for (uint32_t i = 1; i < count; ++i) {
    const Inst& inst = body[i];
    if (inst.kind != InstKind::kReduce || inst.a != body[0].out || inst.of != TapeType::kF32) return;
    int& slot = inst.op == TapeOp::kReduceMin ? least : greatest;
    if (slot >= 0) return;
    slot = inst.arg;
  }
  stage->floats = body[0].access;
  stage->least = least;
  stage->greatest = greatest;
}

// Of the stages that BuildReduction has made.
Status PartBuilder::BuildOneRow(Span<StageProgram> stages) {
  Span<int> phase_stage = arena_.New<int>(stages.size());
  if (phase_stage.data() == nullptr) return NoMemory();
  out_->phases = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].per_row) continue;
    phase_stage[static_cast<size_t>(out_->phases++)] = static_cast<int>(s);
    FindStraight(&stages[s]);
  }
  out_->phase_stage = phase_stage.data();
  out_->end_phase = engine_.end_one_row;
  const StageProgram& first = stages[static_cast<size_t>(phase_stage[0])];
  if (first.floats != nullptr && first.resets != 0) out_->take_range = engine_.take_range;
  out_->tasks = out_->tiling.tiles;
  return Status::Ok();
}

// What the part writes, where that is the floats of a whole tensor, row by row, and perhaps integers: its
// range can be taken while it is written.
Status PartBuilder::FindWritten() {
  const Nest& nest = out_->nest;
  int found = -1;
  for (size_t i = 0; i < part_.operands.size(); ++i) {
    const Operand& operand = part_.operands[i];
    if (operand.mode == Mode::kRead || !IsFloat(operand.dtype)) continue;
    if (found >= 0 || operand.dtype != DType::kF32) return Status::Ok();
    found = static_cast<int>(i);
  }
  if (found < 0 || nest.points[0] != 1) return Status::Ok();
  const Access* access = nullptr;
  RONDO_RETURN_IF_ERROR(BuildAccess(static_cast<uint16_t>(found), out_->tiling, &access));
  int64_t row = 0, column = 0;
  if (access->plain && Linear(*access, nest, 1, &row) && Linear(*access, nest, 2, &column) &&
      (row == nest.points[2] || nest.points[1] == 1) && (column == 1 || nest.points[2] == 1))
    out_->written = access;
  return Status::Ok();
}

}  // namespace rondo::host
