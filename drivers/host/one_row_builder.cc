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

// Whether it is a float for each point of the innermost loop, one behind the other.
bool PartBuilder::IsOfInnermost(const Access& access) const {
  const Nest& nest = out_->nest;
  const int inner = nest.first[2] - 1;
  bool steps = false;
  for (int i = 0; i < access.num_loops; ++i) {
    if (access.step[i] == 0 || nest.extent[access.loop[i]] == 1) continue;
    if (access.loop[i] != inner || access.step[i] != 1) return false;
    steps = true;
  }
  return steps && access.plain && access.dtype == DType::kF32;
}

// Whether body[0] and body[1] load floats of the row and what multiplies them, in any order, and body[2] is their
// product: the factors, and the floats in `stage`. Null: otherwise.
const Access* PartBuilder::FactorsOf(const Inst* body, StageProgram* stage) const {
  const Inst& product = body[2];
  if (body[0].kind != InstKind::kLoad || body[1].kind != InstKind::kLoad || product.kind != InstKind::kOp ||
      product.op != TapeOp::kMul || product.type != TapeType::kF32 || body[0].out == body[1].out)
    return nullptr;
  const bool ordered = product.a == body[0].out && product.b == body[1].out;
  if (!ordered && !(product.a == body[1].out && product.b == body[0].out)) return nullptr;
  for (const int first : {0, 1}) {
    const Access &floats = *body[first].access, &factors = *body[1 - first].access;
    if (floats.dtype != DType::kF32 || !IsRun(floats) || !IsOfInnermost(factors)) continue;
    stage->floats = &floats;
    return &factors;
  }
  return nullptr;
}

// What the stage does without its tape: to make bytes of floats that lie so, or of products of them.
bool PartBuilder::FindQuantised(StageProgram* stage) const {
  const Program& program = stage->program;
  const uint32_t count = program.num_body;
  if (count < 3 || stage->resets != 0) return false;
  const Inst &before = program.body[count - 3], &op = program.body[count - 2], &store = program.body[count - 1];
  bool straight = op.kind == InstKind::kOp && op.direct && op.exact && store.kind == InstKind::kStore &&
                  op.a == before.out && op.b != before.out && op.c != before.out && IsRun(*store.access) &&
                  store.access->size == 1;
  uint32_t others = count - 3;
  if (straight && before.kind == InstKind::kOp && count >= 5) {
    others = count - 5;
    stage->factors = FactorsOf(program.body + others, stage);
    straight = stage->factors != nullptr;
  } else if (straight) {
    straight = before.kind == InstKind::kLoad && before.direct && before.access->dtype == DType::kF32 &&
               IsRun(*before.access);
    stage->floats = before.access;
  }
  for (uint32_t i = 0; i < others; ++i) straight &= program.body[i].kind == InstKind::kScalar;
  stage->quantises = straight;
  if (!straight) stage->floats = stage->factors = nullptr;
  return straight;
}

// The same: to look for the least and the greatest of them.
void PartBuilder::FindRange(StageProgram* stage) const {
  const Inst* const body = stage->program.body;
  const uint32_t count = stage->program.num_body;
  if (count < 2) return;
  const Access* floats = body[0].access;
  uint32_t at = 1;  // behind what is looked at
  if (count >= 4 && body[1].kind == InstKind::kLoad) {
    StageProgram products;
    stage->factors = FactorsOf(body, &products);
    floats = products.floats;
    at = 3;
  }
  int least = -1, greatest = -1;
  bool fits = floats != nullptr && (stage->factors != nullptr || (body[0].kind == InstKind::kLoad && at == 1)) &&
              floats->dtype == DType::kF32 && IsRun(*floats);
  for (uint32_t i = at; fits && i < count; ++i) {
    const Inst& inst = body[i];
    int& slot = inst.op == TapeOp::kReduceMin ? least : greatest;
    fits = inst.kind == InstKind::kReduce && inst.a == body[at - 1].out && inst.of == TapeType::kF32 && slot < 0;
    slot = inst.arg;
  }
  if (!fits) {
    stage->factors = nullptr;
    return;
  }
  stage->floats = floats;
  stage->least = least;
  stage->greatest = greatest;
}

// Of the stages that BuildReduction has made.
Status PartBuilder::BuildOneRow(Span<StageProgram> stages) {
  Span<int> phase_stage = arena_.New<int>(stages.size());
  if (phase_stage.data() == nullptr) return NoMemory();
  out_->phases = 0;
  bool factors = false;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].per_row) continue;
    phase_stage[static_cast<size_t>(out_->phases++)] = static_cast<int>(s);
    if (!FindQuantised(&stages[s])) FindRange(&stages[s]);
    factors |= stages[s].factors != nullptr;
  }
  const int64_t along = out_->nest.extent[out_->nest.first[2] - 1];
  if (factors) out_->factors_at = Take(Bytes(along + kLeastFactors, sizeof(float)));
  out_->phase_stage = phase_stage.data();
  out_->end_phase = engine_.end_one_row;
  const StageProgram& first = stages[static_cast<size_t>(phase_stage[0])];
  if (first.floats != nullptr && first.factors == nullptr && first.resets != 0) out_->take_range = engine_.take_range;
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
