#include "formats/plan/verify_internal.h"

namespace rondo::plan {
namespace {

constexpr int8_t kNoRegister = -1;

// Verifies one tape, instruction by instruction.
class TapeVerifier {
 public:
  TapeVerifier(const Part& part, const TapePlace& place, RowState* row)
      : part_(part), place_(place), row_(row) {}

  Status Run(Tape tape);

 private:
  Status Instruction(const TapeInst& inst, size_t k);
  Status Leaf(const TapeInst& inst);
  Status Effect(const TapeInst& inst);
  Status Combine(const TapeInst& inst, TapeType type);
  Status Arithmetic(const TapeInst& inst, OpClass op);
  Status Operand(const TapeInst& inst, bool write);
  Status Slot(const TapeInst& inst, uint32_t slots, const char* what, TapeUse use);

  bool May(TapeUse use) const { return (place_.uses & use) != 0; }
  TapeType TypeOf(uint16_t reg) const { return static_cast<TapeType>(types_[reg]); }

  const Part& part_;
  const TapePlace& place_;
  RowState* row_;
  RowState after_;  // values that this tape's reductions set at its end
  bool reduced_[kMaxSlots] = {};
  bool yielded_ = false;
  int8_t types_[kMaxTape];  // by register; kNoRegister for effects
};

Status TapeVerifier::Operand(const TapeInst& inst, bool write) {
  if (inst.arg >= part_.operands.size()) {
    return RONDO_BROKEN("operand %u of %zu", inst.arg, part_.operands.size());
  }
  const rondo::Operand& operand = part_.operands[inst.arg];
  if (operand.mode == (write ? Mode::kRead : Mode::kWrite)) {
    return RONDO_BROKEN("%s operand %u, which its contract only %s", write ? "stores to" : "loads", inst.arg,
                        write ? "reads" : "writes");
  }
  return VerifyLoopsOf(place_.operands, inst.arg, place_.loops);
}

Status TapeVerifier::Slot(const TapeInst& inst, uint32_t slots, const char* what, TapeUse use) {
  if (!May(use)) return RONDO_BROKEN("%s are not to be used here", what);
  if (inst.arg >= slots) return RONDO_BROKEN("number %u of %u %s", inst.arg, slots, what);
  return Status::Ok();
}

Status TapeVerifier::Leaf(const TapeInst& inst) {
  switch (inst.op) {
    case TapeOp::kLoad: {
      RONDO_RETURN_IF_ERROR(Operand(inst, false));
      if (DType dtype = part_.operands[inst.arg].dtype; NaturalType(dtype) != inst.type) {
        return RONDO_BROKEN("loads %s as type %d", Name(dtype), static_cast<int>(inst.type));
      }
      return Status::Ok();
    }
    case TapeOp::kIndex:
      if (inst.arg >= part_.loops.size() || (place_.loops >> inst.arg & 1) == 0) {
        return RONDO_BROKEN("index of loop %u, over which this tape does not run", inst.arg);
      }
      if (inst.type != TapeType::kI64) return RONDO_BROKEN("an index has type i64");
      return Status::Ok();
    case TapeOp::kAcc:
      RONDO_RETURN_IF_ERROR(Slot(inst, place_.accumulators, "accumulators", kMayReadAcc));
      if (inst.type != part_.acc_type) return RONDO_BROKEN("not of the accumulators' type");
      return Status::Ok();
    case TapeOp::kScalar:
    case TapeOp::kKept: {
      const bool scalar = inst.op == TapeOp::kScalar;
      RONDO_RETURN_IF_ERROR(Slot(inst, scalar ? part_.scalars : part_.kept,
                                 scalar ? "row scalars" : "kept rows", scalar ? kMayUseScalars : kMayReduce));
      const int8_t type = scalar ? row_->scalars[inst.arg] : row_->kept[inst.arg];
      if (type == RowState::kUnset) return RONDO_BROKEN("number %u is read before it is set", inst.arg);
      if (type != static_cast<int8_t>(inst.type))
        return RONDO_BROKEN("number %u was set with another type", inst.arg);
      return Status::Ok();
    }
    default: return Status::Ok();
  }
}

// Combines into one f32 element, the same for all points.
Status TapeVerifier::Combine(const TapeInst& inst, TapeType type) {
  if (!May(kMayCombine)) return RONDO_BROKEN("only bodies, epilogues and stages combine");
  RONDO_RETURN_IF_ERROR(Operand(inst, true));
  const rondo::Operand& cell = part_.operands[inst.arg];
  bool one = cell.mode == Mode::kReadWrite && cell.dtype == DType::kF32 && type == TapeType::kF32 &&
             cell.guards.empty() && cell.indirects.empty();
  for (int64_t stride : cell.strides) one &= stride == 0;
  return one ? Status::Ok()
             : RONDO_BROKEN("combines into operand %u, not one f32 that is read and written", inst.arg);
}

Status TapeVerifier::Effect(const TapeInst& inst) {
  const TapeType type = TypeOf(inst.a);
  switch (inst.op) {
    case TapeOp::kStore: {
      if (!May(kMayStore)) return RONDO_BROKEN("stores are not allowed here");
      RONDO_RETURN_IF_ERROR(Operand(inst, true));
      if (DType dtype = part_.operands[inst.arg].dtype; NaturalType(dtype) != type) {
        return RONDO_BROKEN("stores type %d as %s", static_cast<int>(type), Name(dtype));
      }
      return Status::Ok();
    }
    case TapeOp::kCombineMax:
    case TapeOp::kCombineMin: return Combine(inst, type);
    case TapeOp::kAssertFinite:
      return type == TapeType::kI64 ? RONDO_BROKEN("register %u is not of its type", inst.a) : Status::Ok();
    case TapeOp::kYield:
      if (!May(kMayYield)) return RONDO_BROKEN("only a prologue yields");
      if (yielded_) return RONDO_BROKEN("yields twice");
      if (type != part_.acc_type) return RONDO_BROKEN("does not yield the accumulators' type");
      yielded_ = true;
      return Status::Ok();
    case TapeOp::kSetScalar:
      RONDO_RETURN_IF_ERROR(Slot(inst, part_.scalars, "row scalars", kMaySetScalars));
      row_->scalars[inst.arg] = static_cast<int8_t>(type);
      return Status::Ok();
    case TapeOp::kKeep:
      RONDO_RETURN_IF_ERROR(Slot(inst, part_.kept, "kept rows", kMayReduce));
      row_->kept[inst.arg] = static_cast<int8_t>(type);
      return Status::Ok();
    default: {
      RONDO_RETURN_IF_ERROR(Slot(inst, part_.scalars, "row scalars", kMayReduce));
      if (reduced_[inst.arg]) return RONDO_BROKEN("reduces into row scalar %u twice", inst.arg);
      const bool position = inst.op == TapeOp::kReduceArgMax || inst.op == TapeOp::kReduceArgMin;
      if (position && inst.imm.i != 0 && inst.imm.i != 1) return RONDO_BROKEN("imm is neither 0 nor 1");
      reduced_[inst.arg] = true;
      after_.scalars[inst.arg] = static_cast<int8_t>(position ? TapeType::kI64 : type);
      row_->scalars[inst.arg] = RowState::kUnset;  // not readable while it is computed
      return Status::Ok();
    }
  }
}

Status TapeVerifier::Arithmetic(const TapeInst& inst, OpClass op) {
  const TapeType a = TypeOf(inst.a);
  const bool integer = inst.type == TapeType::kI64;
  if (IsBitwise(op) && !integer) return RONDO_BROKEN("a bit operation has type i64");
  if (op == OpClass::kCast) {
    if (inst.imm.i < 0 || inst.imm.i >= kNumDTypes) {
      return RONDO_BROKEN("casts to dtype %lld of %d", static_cast<long long>(inst.imm.i), kNumDTypes);
    }
    if (NaturalType(static_cast<DType>(inst.imm.i)) != inst.type)
      return RONDO_BROKEN("its type is not its dtype's");
    return Status::Ok();
  }
  if (GivesTruth(op)) {
    if (!integer) return RONDO_BROKEN("its result has type i64");
    return op == OpClass::kTest || a == TypeOf(inst.b) ? Status::Ok()
                                                       : RONDO_BROKEN("compares registers of two types");
  }
  if (op == OpClass::kSelect) {
    if (a != TapeType::kI64) return RONDO_BROKEN("selects by a register that is not i64");
  } else if (a != inst.type) {
    return RONDO_BROKEN("register %u is not of its type", inst.a);
  }
  if (Inputs(op) >= 2 && TypeOf(inst.b) != inst.type)
    return RONDO_BROKEN("register %u is not of its type", inst.b);
  if (Inputs(op) == 3 && TypeOf(inst.c) != inst.type)
    return RONDO_BROKEN("register %u is not of its type", inst.c);
  return Status::Ok();
}

Status TapeVerifier::Instruction(const TapeInst& inst, size_t k) {
  const OpClass op = ClassOf(inst.op);
  if (op == OpClass::kUnknown) return RONDO_BROKEN("unknown op");
  if (inst.type > TapeType::kI64) return RONDO_BROKEN("unknown type %d", static_cast<int>(inst.type));
  const uint16_t inputs[] = {inst.a, inst.b, inst.c};
  for (int i = 0; i < Inputs(op); ++i) {
    if (inputs[i] >= k) return RONDO_BROKEN("register %u is not an earlier one", inputs[i]);
    if (types_[inputs[i]] == kNoRegister) return RONDO_BROKEN("register %u holds no value", inputs[i]);
  }
  types_[k] = op == OpClass::kEffect ? kNoRegister : static_cast<int8_t>(inst.type);
  if (op == OpClass::kLeaf) return Leaf(inst);
  return op == OpClass::kEffect ? Effect(inst) : Arithmetic(inst, op);
}

Status TapeVerifier::Run(Tape tape) {
  if (tape.size() > kMaxTape) return RONDO_BROKEN("%zu instructions exceed %d", tape.size(), kMaxTape);
  for (size_t k = 0; k < tape.size(); ++k) {
    if (Status status = Instruction(tape[k], k); !status.ok()) {
      return status.At("instruction %zu (op %d)", k, static_cast<int>(tape[k].op));
    }
  }
  if (May(kMayYield) && !tape.empty() && (!yielded_ || tape.back().op != TapeOp::kYield)) {
    return RONDO_BROKEN("it does not end with its yield");
  }
  for (int i = 0; i < kMaxSlots; ++i) {
    if (reduced_[i]) row_->scalars[i] = after_.scalars[i];
  }
  return Status::Ok();
}

}  // namespace

Status VerifyTape(const Part& part, Tape tape, const TapePlace& place, RowState* row) {
  TapeVerifier verifier(part, place, row);
  return verifier.Run(tape);
}

}  // namespace rondo::plan
