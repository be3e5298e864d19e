#include "drivers/host/matmul/requantise_builder.h"

#include <utility>

#include "drivers/host/matmul/matmul_builders.h"
#include "drivers/host/tape/byte_tapes.h"

namespace rondo::host {
namespace {

bool ReadsRegister(const TapeInst& inst, size_t reg) {
  const uint16_t reads[3] = {inst.a, inst.b, inst.c};
  for (int r = 0; r < Inputs(inst.op); ++r) {
    if (reads[r] == reg) return true;
  }
  return false;
}

// Follows one accumulator through a tape to its store.
class EpilogueMatcher {
 public:
  EpilogueMatcher(PartContext& c, Tape tape, const GrowingList<uint8_t>& of_columns)
      : c_(c), tape_(tape), of_columns_(of_columns) {}

  // Returns false if the epilogue does not match. Registers are tape instructions until they get places.
  bool Follow(size_t sum, Requantisation* to) {
    size_t at = sum;
    for (;;) {
      const size_t next = OnlyReader(at);
      if (IsTableFrom(next)) return Tabulate(at, to);
      if (next == tape_.size()) return false;
      if (tape_[next].op == TapeOp::kStore) return !whole_ && Store(tape_[next], at, to);
      if (!Step(tape_[next], at, to)) return false;
      at = next;
    }
  }
  // Follows up to instruction `floats`, which gives a float.
  bool FollowFloats(size_t sum, Requantisation* to, uint16_t* floats) {
    size_t at = sum;
    Requantisation tried;
    bool found = false;
    for (size_t next = OnlyReader(at); next < tape_.size() && step_ < kLimited; next = OnlyReader(at)) {
      if (!Step(tape_[next], at, &tried)) break;
      at = next;
      const bool limited = step_ == kLimited && !MakesBytes(at) && FitsByte(least_ < 0, &tried);
      if (whole_ || (step_ != 0 && !limited)) continue;
      found = true;
      *to = tried;
      *floats = static_cast<uint16_t>(at);
    }
    if (to->quantises) LimitToBytes(to);
    return found && (row_ == kNoOperand || c_.BuildAccess(row_, c_.tiling, &to->row).ok());
  }

 private:
  bool Step(const TapeInst& inst, size_t at, Requantisation* to) {
    if (whole_) {
      whole_ = !CastsTo(inst, DType::kF32);
      return !whole_ || CastsTo(inst, DType::kI32) || Correct(inst, at, to);
    }
    if (CastsTo(inst, DType::kI32) && IsPlain(*to))
      return whole_ = true;  // floats of integers are the same numbers
    return Scale(inst, at, to) || Quantise(inst, at, to);
  }
  // Whether an instruction makes bytes of the floats.
  bool MakesBytes(size_t reg) const {
    for (size_t k = reg + 1; k < tape_.size(); ++k) {
      if (!ReadsRegister(tape_[k], reg) || tape_[k].op != TapeOp::kCast || tape_[k].type != TapeType::kI64)
        continue;
      for (size_t reader = k + 1; reader < tape_.size(); ++reader) {
        if (ReadsRegister(tape_[reader], k)) return true;
      }
    }
    return false;
  }
  // Whether the floats are unchanged.
  static bool IsPlain(const Requantisation& to) {
    return to.before == kNoRegister && to.factor == kNoRegister && !to.clamps && !to.quantises;
  }
  size_t OnlyReader(size_t reg) const {
    size_t found = tape_.size();
    for (size_t k = reg + 1; k < tape_.size(); ++k) {
      if (!ReadsRegister(tape_[k], reg)) continue;
      if (found != tape_.size()) return tape_.size();
      found = k;
    }
    return found;
  }
  static bool CastsTo(const TapeInst& inst, DType dtype) {
    return inst.op == TapeOp::kCast && inst.imm.i == static_cast<int64_t>(dtype);
  }
  // The other operand, if it depends only on the column.
  bool Other(const TapeInst& inst, size_t reg, uint32_t* other) const {
    if (inst.a == inst.b) return false;
    *other = inst.a == reg ? inst.b : inst.a;
    return of_columns_[*other] != 0;
  }
  bool OtherNumber(const TapeInst& inst, size_t reg, float* number) const {
    uint32_t other = 0;
    if (!Other(inst, reg, &other) || tape_[other].op != TapeOp::kConst) return false;
    *number = static_cast<float>(tape_[other].imm.f);
    return *number == *number;
  }
  // Whether the register is one integer for each row.
  bool IsOfRow(size_t reg) const {
    const TapeInst& load = tape_[reg];
    if (load.op != TapeOp::kLoad || load.type != TapeType::kI64 || load.arg >= c_.part.operands.size())
      return false;
    const Operand& operand = c_.part.operands[load.arg];
    return operand.guards.empty() && operand.indirects.empty() && !c_.Depends(operand, kN);
  }

  bool ReadsRowSum(size_t reg) const { return tape_[reg].op == TapeOp::kAcc && IsRowSum(c_, tape_[reg].arg); }

  // Matches minus a number of the column, minus a number of the row times one of the column, or minus the row
  // sum itself.
  bool Correct(const TapeInst& inst, size_t at, Requantisation* to) {
    if (inst.op != TapeOp::kSub || inst.a != at || inst.b == at) return false;
    if (of_columns_[inst.b] != 0) {
      if (to->correction != kNoRegister) return false;
      to->correction = inst.b;
      return true;
    }
    const TapeInst& narrowed = tape_[inst.b];
    const TapeInst& product = CastsTo(narrowed, DType::kI32) ? tape_[narrowed.a] : narrowed;
    if (to->of_row()) return false;
    if (ReadsRowSum(inst.b)) {
      to->row_sum = tape_[inst.b].arg;
      return true;
    }
    if (product.op != TapeOp::kMul) return false;
    for (const auto& [row, column] : {std::pair{product.a, product.b}, std::pair{product.b, product.a}}) {
      if (of_columns_[column] == 0) continue;
      if (ReadsRowSum(row)) {
        to->row_sum = tape_[row].arg;
      } else if (IsOfRow(row)) {
        row_ = tape_[row].arg;
      } else {
        continue;
      }
      to->times = column;
      return true;
    }
    return false;
  }

  bool Scale(const TapeInst& inst, size_t at, Requantisation* to) const {
    if (to->quantises || inst.type != TapeType::kF32) return false;
    if (inst.op == TapeOp::kMax || inst.op == TapeOp::kMin) return Clamp(inst, at, to);
    if (to->clamps) return false;
    uint32_t* term = to->factor == kNoRegister ? &to->before : &to->after;
    if (inst.op == TapeOp::kAdd) return *term == kNoRegister && Other(inst, at, term);
    return inst.op == TapeOp::kMul && to->factor == kNoRegister && Other(inst, at, &to->factor);
  }
  // Matches a maximum with a number, then a minimum; either may be missing.
  bool Clamp(const TapeInst& inst, size_t at, Requantisation* to) const {
    float number = 0;
    if (!OtherNumber(inst, at, &number) || number != number || to->high != __builtin_inff()) return false;
    if (inst.op == TapeOp::kMax && to->low != -__builtin_inff()) return false;
    to->clamps = true;
    (inst.op == TapeOp::kMax ? to->low : to->high) = number;
    return true;
  }

  // Matches in order: a quotient (or an earlier division), rounding, an offset, a range that a byte holds,
  // and a cast to a byte.
  bool Quantise(const TapeInst& inst, size_t at, Requantisation* to) {
    if (inst.op == TapeOp::kDiv) {
      to->quantises = true;
      return step_++ == 0 && inst.a == at && OtherNumber(inst, at, &to->scale);
    }
    if (inst.op == TapeOp::kRound) {
      to->quantises = true;
      return std::exchange(step_, 2) < 2;
    }
    if (inst.op == TapeOp::kAdd && step_ == 2) return step_++ == 2 && OtherNumber(inst, at, &to->zero);
    if (inst.op == TapeOp::kMax && (step_ == 2 || step_ == 3)) {
      step_ = 4;
      return OtherNumber(inst, at, &least_);
    }
    if (inst.op == TapeOp::kMin) return step_++ == 4 && OtherNumber(inst, at, &greatest_);
    const bool is_signed = CastsTo(inst, DType::kI8);
    return (is_signed || CastsTo(inst, DType::kU8)) && step_++ == kLimited && FitsByte(is_signed, to);
  }
  bool FitsByte(bool is_signed, Requantisation* to) {
    dtype_ = is_signed ? DType::kI8 : DType::kU8;
    to->is_signed = is_signed;
    return least_ >= (is_signed ? -128 : 0) && greatest_ <= (is_signed ? 127 : 255) && least_ <= greatest_ &&
           QuotientIsQuick(to->scale, to->zero, least_, greatest_) && AreWhole(*to);
  }
  bool AreWhole(const Requantisation& to) const {
    return to.zero == __builtin_truncf(to.zero) && least_ == __builtin_truncf(least_) &&
           greatest_ == __builtin_truncf(greatest_);
  }
  // Limits numbers that round to the least or greatest byte, or beyond, before they are divided.
  void LimitToBytes(Requantisation* to) const {
    const float least = (least_ - to->zero) * to->scale, greatest = (greatest_ - to->zero) * to->scale;
    for (float* limit : {&to->low, &to->high}) {
      if (*limit < least) *limit = least;
      if (*limit > greatest) *limit = greatest;
    }
  }

  // Whether the readers of the bytes, or of the floats that bytes hold, do more than make bytes of them or
  // store them.
  bool IsTableFrom(size_t next) const {
    const bool one = next < tape_.size();
    if (step_ == kLimited)
      return !one || (!CastsTo(tape_[next], DType::kI8) && !CastsTo(tape_[next], DType::kU8));
    return step_ == kQuantised && (!one || tape_[next].op != TapeOp::kStore);
  }
  // Replaces what depends only on the bytes, and is stored as bytes, by a table.
  bool Tabulate(size_t bytes, Requantisation* to) {
    if (step_ == kLimited && !FitsByte(least_ < 0, to)) return false;
    step_ = kQuantised;
    const GrowingList<uint16_t> steps = StepsFrom(c_, tape_, bytes);
    if (!steps.ok() || steps.empty()) return false;
    size_t store = 0;
    for (uint16_t step : steps) store = tape_[step].op == TapeOp::kStore ? step : store;
    return MakeByteTable(c_, tape_, bytes, steps, dtype_, &to->table).ok() &&
           Store(tape_[store], tape_[store].a, to);
  }
  bool Store(const TapeInst& store, size_t at, Requantisation* to) {
    if (to->factor == kNoRegister || store.arg >= c_.part.operands.size() || store.a != at) return false;
    const Operand& out = c_.part.operands[store.arg];
    if (to->quantises ? step_ != kQuantised || (to->table == nullptr && out.dtype != dtype_)
                      : out.dtype != DType::kF32)
      return false;
    bool built = c_.BuildAccess(store.arg, c_.tiling, &to->out).ok() && to->out->plain;
    const int64_t lanes = c_.tiling.chunk * c_.tiling.inner;
    built = built && (to->out->lane.kind == LaneKind::kUnit || lanes == 1);
    if (to->quantises) LimitToBytes(to);
    if (row_ != kNoOperand) built = built && c_.BuildAccess(row_, c_.tiling, &to->row).ok();
    return built;
  }

  PartContext& c_;
  const Tape tape_;
  const GrowingList<uint8_t>& of_columns_;
  uint16_t row_ = kNoOperand;
  bool whole_ = true;  // no floats yet
  static constexpr int kLimited = 5, kQuantised = 6;
  int step_ = 0;  // of the quantisation
  float least_ = 0, greatest_ = 0;
  DType dtype_ = DType::kF32;
};

}  // namespace

GrowingList<uint8_t> DependOnColumns(const PartContext& c) {
  GrowingList<uint8_t> of_columns = GrowingList<uint8_t>::Filled(c.part.epilogue.size(), 0);
  for (size_t k = 0; of_columns.ok() && k < c.part.epilogue.size(); ++k) {
    const TapeInst& inst = c.part.epilogue[k];
    const uint16_t reads[3] = {inst.a, inst.b, inst.c};
    const OpClass kind = ClassOf(inst.op);
    bool of = kind != OpClass::kEffect &&
              (kind != OpClass::kLeaf || inst.op == TapeOp::kConst || inst.op == TapeOp::kLoad);
    for (int r = 0; r < Inputs(inst.op); ++r) of = of && reads[r] < k && of_columns[reads[r]] != 0;
    if (inst.op == TapeOp::kLoad)
      of = inst.arg < c.part.operands.size() && c.part.operands[inst.arg].mode == Mode::kRead &&
           !c.Depends(c.part.operands[inst.arg], kM);
    of_columns[k] = of;
  }
  return of_columns;
}

bool MatchRequantisation(PartContext& c, Tape tape, const GrowingList<uint8_t>& of_columns, size_t sum,
                         Requantisation* to) {
  return EpilogueMatcher(c, tape, of_columns).Follow(sum, to);
}

bool MatchFloats(PartContext& c, Tape tape, const GrowingList<uint8_t>& of_columns, size_t sum,
                 Requantisation* to, uint16_t* floats) {
  return EpilogueMatcher(c, tape, of_columns).FollowFloats(sum, to, floats);
}

}  // namespace rondo::host
