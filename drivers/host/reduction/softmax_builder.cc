// Recognises reductions that are a softmax of rows (SoftmaxProgram).
#include "drivers/host/reduction/reduction_builder.h"

namespace rondo::host {
namespace {

// The instructions of a stage, in order.
class Steps {
 public:
  explicit Steps(const Program& program) : program_(&program), at_(program.num_same) {}

  bool Done() const { return at_ == program_->num_body; }
  // The next instruction, if it has this kind; else null.
  const Inst* Next(InstKind kind) {
    return !Done() && program_->body[at_].kind == kind ? &program_->body[at_++] : nullptr;
  }
  const Inst* NextOp(TapeOp op) {
    return !Done() && program_->body[at_].op == op && program_->body[at_].type == TapeType::kF32
               ? Next(InstKind::kOp)
               : nullptr;
  }
  // Reads the value of register `reg`, if it is a constant float.
  bool Number(uint32_t reg, float* number) const {
    for (uint32_t k = 0; k < program_->num_once; ++k) {
      const Inst& inst = program_->once[k];
      if (inst.out != reg || inst.op != TapeOp::kConst || inst.type != TapeType::kF32) continue;
      *number = static_cast<float>(inst.imm.f);
      return __builtin_isfinite(*number);
    }
    return false;
  }

 private:
  const Program* program_;
  uint32_t at_;
};

// A read of floats, or of bytes minus a number, times a number; `reg` is the register of the result.
struct RowRead {
  const Access* from = nullptr;
  float zero = 0, scale = 1;
  uint32_t reg = 0;
};
bool Read(Steps* steps, RowRead* row) {
  const Inst* load = steps->Next(InstKind::kLoad);
  if (load == nullptr || load->type != TapeType::kF32) return false;
  row->from = load->access;
  row->reg = load->out;
  if (row->from->dtype == DType::kF32) return true;
  if (!Is8Bit(row->from->dtype)) return false;
  Steps ahead = *steps;
  const Inst* sub = ahead.NextOp(TapeOp::kSub);
  if (sub != nullptr && sub->a == row->reg && ahead.Number(sub->b, &row->zero)) {
    row->reg = sub->out;
    *steps = ahead;
  }
  ahead = *steps;
  const Inst* mul = ahead.NextOp(TapeOp::kMul);
  if (mul == nullptr || (mul->a != row->reg && mul->b != row->reg)) return true;
  if (ahead.Number(mul->a == row->reg ? mul->b : mul->a, &row->scale)) {
    row->reg = mul->out;
    *steps = ahead;
  }
  return true;
}

}  // namespace

bool FindSoftmax(const PartContext& c, const ReductionPart& part, Span<StageProgram> stages,
                 SoftmaxProgram* softmax) {
  const Nest& nest = c.nest;
  if (part.variant != Variant::kRows || stages.size() != 3 || part.num_kept != 1) return false;
  for (const StageProgram& stage : stages) {
    if (stage.per_row || stage.program.num_same != 0) return false;
  }
  const auto along = [&](const Access& access) {
    return access.plain && access.lane.kind == LaneKind::kUnit;
  };
  if (nest.first[2] - nest.first[1] != 1 || part.tiling.inner != 1) return false;

  Steps first(stages[0].program);
  RowRead row;
  if (!Read(&first, &row) || !along(*row.from)) return false;
  const Inst* most = first.Next(InstKind::kReduce);
  if (most == nullptr || most->op != TapeOp::kReduceMax || most->a != row.reg || !first.Done()) return false;

  Steps second(stages[1].program);
  RowRead again;
  const Inst* greatest = second.Next(InstKind::kScalar);
  if (greatest == nullptr || greatest->arg != most->arg || !Read(&second, &again)) return false;
  if (again.from->operand != row.from->operand || again.zero != row.zero || again.scale != row.scale)
    return false;
  const Inst* less = second.NextOp(TapeOp::kSub);
  if (less == nullptr || less->a != again.reg || less->b != greatest->out) return false;
  const Inst* exp = second.NextOp(TapeOp::kExp);
  if (exp == nullptr || exp->a != less->out) return false;
  const Inst *keep = nullptr, *sum = nullptr;
  for (int i = 0; i < 2; ++i) {
    const Inst* next = second.Next(InstKind::kKeep);
    (next != nullptr ? keep : sum) = next != nullptr ? next : second.Next(InstKind::kReduce);
  }
  if (keep == nullptr || sum == nullptr || !second.Done()) return false;
  if (keep->a != exp->out || sum->a != exp->out || sum->op != TapeOp::kReduceSum) return false;

  Steps third(stages[2].program);
  const Inst* all = third.Next(InstKind::kScalar);
  const Inst* kept = third.Next(InstKind::kKept);
  if (all == nullptr || kept == nullptr || all->arg != sum->arg || kept->arg != keep->arg) return false;
  const Inst* quotient = third.NextOp(TapeOp::kDiv);
  if (quotient == nullptr || quotient->a != kept->out || quotient->b != all->out) return false;
  const Inst* quantise = third.Next(InstKind::kOp);
  const Inst* store = third.Next(InstKind::kStore);
  if (store == nullptr || !third.Done() || !along(*store->access)) return false;
  if (quantise != nullptr) {
    const bool known = quantise->fn == c.engine.quantise.to_u8 || quantise->fn == c.engine.quantise.to_i8;
    if (!known || !quantise->direct || quantise->a != quotient->out) return false;
  } else if (store->access->dtype != DType::kF32 || store->a != quotient->out) {
    return false;
  }
  *softmax = {row.from, store->access, row.zero, row.scale, quantise};
  return true;
}

}  // namespace rondo::host
