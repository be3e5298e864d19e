// Epilogues of products of bytes that scale the sums, and perhaps quantise them: see Requantisation.
#include <utility>

#include "drivers/host/part_builder.h"

namespace rondo::host {
namespace {

constexpr int kM = 1, kN = 2;  // groups of the nest

bool ReadsRegister(const TapeInst& inst, size_t reg) {
  const uint16_t reads[3] = {inst.a, inst.b, inst.c};
  for (int r = 0; r < Inputs(inst.op); ++r) {
    if (reads[r] == reg) return true;
  }
  return false;
}

}  // namespace

// One accumulator's way through a tape to what stores it.
class PartBuilder::SumsWay {
 public:
  SumsWay(PartBuilder& builder, Tape tape, const GrowingList<uint8_t>& of_columns)
      : b_(builder), tape_(tape), of_columns_(of_columns) {}

  // False: the epilogue is something else. Registers are instructions of the tape until they have places.
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
  // The same as far as it goes: to instruction `floats`, which is a float.
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
    return found && (row_ == kNoOperand || b_.BuildAccess(row_, b_.out_->tiling, &to->row).ok());
  }

 private:
  bool Step(const TapeInst& inst, size_t at, Requantisation* to) {
    if (whole_) {
      whole_ = !CastsTo(inst, DType::kF32);
      return !whole_ || CastsTo(inst, DType::kI32) || Correct(inst, at, to);
    }
    if (CastsTo(inst, DType::kI32) && IsPlain(*to))
      return whole_ = true;  // floats of whole numbers are those again
    return Scale(inst, at, to) || Quantise(inst, at, to);
  }
  // Whether somebody needs bytes of the floats.
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
  // Whether nothing has been done to the floats.
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
  // The other factor or term, if it depends on the column alone.
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
  // A whole number a row.
  bool IsOfRow(size_t reg) const {
    const TapeInst& load = tape_[reg];
    if (load.op != TapeOp::kLoad || load.type != TapeType::kI64 || load.arg >= b_.part_.operands.size())
      return false;
    const Operand& operand = b_.part_.operands[load.arg];
    return operand.guards.empty() && operand.indirects.empty() && !b_.Depends(operand, kN);
  }

  bool IsRowSum(size_t reg) const { return tape_[reg].op == TapeOp::kAcc && b_.IsRowSum(tape_[reg].arg); }

  // Less a number of the column, or one of the row times one of the column; the sum of a row as it is.
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
    if (IsRowSum(inst.b)) {
      to->row_sum = tape_[inst.b].arg;
      return true;
    }
    if (product.op != TapeOp::kMul) return false;
    for (const auto& [row, column] : {std::pair{product.a, product.b}, std::pair{product.b, product.a}}) {
      if (of_columns_[column] == 0) continue;
      if (IsRowSum(row)) {
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
  // The greatest with a number, then the least; either may be missing.
  bool Clamp(const TapeInst& inst, size_t at, Requantisation* to) const {
    float number = 0;
    if (!OtherNumber(inst, at, &number) || number != number || to->high != __builtin_inff()) return false;
    if (inst.op == TapeOp::kMax && to->low != -__builtin_inff()) return false;
    to->clamps = true;
    (inst.op == TapeOp::kMax ? to->low : to->high) = number;
    return true;
  }

  // In order: a quotient (or what was divided before), rounded, moved, in a range that a byte holds, as a
  // byte.
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
  // What is rounded to the least or the greatest byte, or beyond, becomes just that before it is divided.
  void LimitToBytes(Requantisation* to) const {
    const float least = (least_ - to->zero) * to->scale, greatest = (greatest_ - to->zero) * to->scale;
    for (float* limit : {&to->low, &to->high}) {
      if (*limit < least) *limit = least;
      if (*limit > greatest) *limit = greatest;
    }
  }

  // Whether what reads bytes, or floats that are what a byte holds, is more than what makes bytes of those or
  // stores them.
  bool IsTableFrom(size_t next) const {
    const bool one = next < tape_.size();
    if (step_ == kLimited)
      return !one || (!CastsTo(tape_[next], DType::kI8) && !CastsTo(tape_[next], DType::kU8));
    return step_ == kQuantised && (!one || tape_[next].op != TapeOp::kStore);
  }
  // What is made of the bytes alone, and stored as bytes, is a table.
  bool Tabulate(size_t bytes, Requantisation* to) {
    if (step_ == kLimited && !FitsByte(least_ < 0, to)) return false;
    step_ = kQuantised;
    const GrowingList<uint16_t> steps = b_.StepsFrom(tape_, bytes);
    if (!steps.ok() || steps.empty()) return false;
    size_t store = 0;
    for (uint16_t step : steps) store = tape_[step].op == TapeOp::kStore ? step : store;
    return b_.MakeByteTable(tape_, bytes, steps, dtype_, &to->table).ok() &&
           Store(tape_[store], tape_[store].a, to);
  }
  bool Store(const TapeInst& store, size_t at, Requantisation* to) {
    if (to->factor == kNoRegister || store.arg >= b_.part_.operands.size() || store.a != at) return false;
    const Operand& out = b_.part_.operands[store.arg];
    if (to->quantises ? step_ != kQuantised || (to->table == nullptr && out.dtype != dtype_)
                      : out.dtype != DType::kF32)
      return false;
    bool built = b_.BuildAccess(store.arg, b_.out_->tiling, &to->out).ok() && to->out->plain;
    const int64_t lanes = b_.out_->tiling.chunk * b_.out_->tiling.inner;
    built = built && (to->out->lane.kind == LaneKind::kUnit || lanes == 1);
    if (to->quantises) LimitToBytes(to);
    if (row_ != kNoOperand) built = built && b_.BuildAccess(row_, b_.out_->tiling, &to->row).ok();
    return built;
  }

  PartBuilder& b_;
  const Tape tape_;
  const GrowingList<uint8_t>& of_columns_;
  uint16_t row_ = kNoOperand;
  bool whole_ = true;  // not floats yet
  static constexpr int kLimited = 5, kQuantised = 6;
  int step_ = 0;  // of the quantisation
  float least_ = 0, greatest_ = 0;
  DType dtype_ = DType::kF32;
};

// Which instructions of the epilogue depend on the column alone.
GrowingList<uint8_t> PartBuilder::DependOnColumns() const {
  GrowingList<uint8_t> of_columns = GrowingList<uint8_t>::Filled(part_.epilogue.size(), 0);
  for (size_t k = 0; of_columns.ok() && k < part_.epilogue.size(); ++k) {
    const TapeInst& inst = part_.epilogue[k];
    const uint16_t reads[3] = {inst.a, inst.b, inst.c};
    const OpClass kind = ClassOf(inst.op);
    bool of = kind != OpClass::kEffect &&
              (kind != OpClass::kLeaf || inst.op == TapeOp::kConst || inst.op == TapeOp::kLoad);
    for (int r = 0; r < Inputs(inst.op); ++r) of = of && reads[r] < k && of_columns[reads[r]] != 0;
    if (inst.op == TapeOp::kLoad)
      of = inst.arg < part_.operands.size() && part_.operands[inst.arg].mode == Mode::kRead &&
           !Depends(part_.operands[inst.arg], kM);
    of_columns[k] = of;
  }
  return of_columns;
}

// The epilogue as requantisations of all right sides, or, if not `whole`, how it begins with floats; `built`
// says whether it is that.
Status PartBuilder::BuildRequantisation(BytesProgram* bytes, bool whole, bool* built) {
  *built = false;
  const Tape tape = part_.epilogue;
  const GrowingList<uint8_t> of_columns = DependOnColumns();
  Span<Requantisation> made = arena_.New<Requantisation>(part_.rhs.size());
  GrowingList<uint16_t> floats = GrowingList<uint16_t>::Filled(part_.rhs.size(), 0);
  if (!of_columns.ok() || made.data() == nullptr || !floats.ok()) return NoMemory();
  uint32_t found = 0;  // a bit a right side
  size_t stored = 0, stores = 0;
  for (size_t k = 0; k < tape.size(); ++k) {
    stores += ClassOf(tape[k].op) == OpClass::kEffect;
    if (tape[k].op != TapeOp::kAcc) continue;
    const uint16_t j = tape[k].arg;
    if ((found >> j & 1) != 0) return Status::Ok();
    found |= 1u << j;
    if (IsRowSum(j)) continue;
    ++stored;
    SumsWay way(*this, tape, of_columns);
    if (whole ? !way.Follow(k, &made[j]) : !way.FollowFloats(k, &made[j], &floats[j])) return Status::Ok();
  }
  if (found != (1u << made.size()) - 1 || (whole && stores != stored)) return Status::Ok();
  RONDO_RETURN_IF_ERROR(BuildOfColumns(of_columns, made, bytes));
  *built = true;
  bytes->whole = whole;
  bytes->requantise = engine_.requantise;
  bytes->look_up = engine_.look_up;
  if (!whole) RONDO_RETURN_IF_ERROR(BeginWithFloats(floats, built));
  if (*built) bytes->sums = made.data();
  return Status::Ok();
}

// The epilogue gets the floats that instructions `floats` have made of the sums so far. Not built where it
// reads a row sum otherwise.
Status PartBuilder::BeginWithFloats(const GrowingList<uint16_t>& floats, bool* built) {
  GrowingList<TapeInst> tape(part_.epilogue.begin(), part_.epilogue.size());
  GrowingList<uint8_t> read = GrowingList<uint8_t>::Filled(part_.epilogue.size(), 0);
  if (!tape.ok() || !read.ok()) return NoMemory();
  for (size_t j = 0; j < floats.size(); ++j) {
    if (IsRowSum(j)) continue;
    TapeInst& sum = tape[floats[j]];
    sum = TapeInst();
    sum.op = TapeOp::kAcc;
    sum.type = TapeType::kF32;
    sum.arg = static_cast<uint16_t>(j);
  }
  for (size_t k = tape.size(); k-- > 0;) {
    if (ClassOf(tape[k].op) != OpClass::kEffect && read[k] == 0) continue;
    if (tape[k].op == TapeOp::kAcc && tape[k].type != TapeType::kF32) {
      *built = false;
      return Status::Ok();
    }
    const uint16_t reads[3] = {tape[k].a, tape[k].b, tape[k].c};
    for (int r = 0; r < Inputs(tape[k].op); ++r) read[reads[r]] = 1;
  }
  for (TapeInst& inst : tape) {
    if (inst.op == TapeOp::kAcc && inst.type != TapeType::kF32) inst.op = TapeOp::kConst;  // nobody reads it
  }
  part_.epilogue = arena_.Copy(tape);
  if (part_.epilogue.data() == nullptr) return NoMemory();
  part_.acc_type = out_->acc_type = TapeType::kF32;
  return Status::Ok();
}

// What is of the columns, in registers that stay.
Status PartBuilder::BuildOfColumns(const GrowingList<uint8_t>& of_columns, Span<Requantisation> sums,
                                   BytesProgram* bytes) {
  const Tape tape = part_.epilogue;
  TapeUse use;
  GrowingList<uint32_t> at;
  use.at = &at;
  GrowingList<TapeInst> kept;
  GrowingList<uint16_t> moved = GrowingList<uint16_t>::Filled(tape.size(), 0);
  if (!moved.ok()) return NoMemory();
  for (size_t k = 0; k < tape.size(); ++k) {
    if (of_columns[k] == 0) continue;
    TapeInst inst = tape[k];
    uint16_t* const reads[3] = {&inst.a, &inst.b, &inst.c};
    for (int r = 0; r < Inputs(inst.op); ++r) *reads[r] = moved[*reads[r]];
    moved[k] = static_cast<uint16_t>(kept.size());
    kept.push_back(inst);
  }
  const auto each = [&](auto f) {
    for (Requantisation& one : sums) {
      for (uint32_t* reg : {&one.correction, &one.times, &one.before, &one.factor, &one.after}) {
        if (*reg != kNoRegister) f(*reg);
      }
    }
  };
  each([&](uint32_t reg) { use.keep.push_back(moved[reg]); });
  if (!kept.ok() || !use.keep.ok()) return NoMemory();
  RONDO_RETURN_IF_ERROR(BuildTape(Tape(kept.data(), kept.size()), out_->tiling, use, &bytes->of_columns));
  each([&](uint32_t& reg) { reg = at[moved[reg]]; });
  bytes->times_at = Take(Bytes(kLanes, out_->num_rhs, sizeof(int32_t)));
  bytes->zeros_at = Take(Bytes(kLanes, sizeof(float)));
  bytes->ones_at = Take(Bytes(kLanes, sizeof(float)));
  return Status::Ok();
}

// How sums of bytes are made use of: in one go, or by a tape.
Status PartBuilder::BuildSumsEpilogue(BytesProgram* bytes) {
  const GrowingList<TapeInst> tape(part_.epilogue.begin(), part_.epilogue.size());
  if (!tape.ok()) return NoMemory();
  for (size_t k = 0; k < tape.size(); ++k) RONDO_RETURN_IF_ERROR(CheckInst(tape[k], k, tape));
  bool built = false;
  RONDO_RETURN_IF_ERROR(BuildRequantisation(bytes, true, &built));
  if (built) return Status::Ok();
  RONDO_RETURN_IF_ERROR(BuildRequantisation(bytes, false, &built));
  RONDO_RETURN_IF_ERROR(BuildEpilogue());
  if (built) FindTail(&bytes->tail);
  return Status::Ok();
}

// Whether lanes of f32 lie beside each other, and rows one behind the other.
bool PartBuilder::IsMatrix(const Access& access) const {
  const Nest& nest = out_->nest;
  int64_t row = 0, column = 0;
  return access.dtype == DType::kF32 && access.plain && Linear(access, nest, kM, &row) &&
         Linear(access, nest, kN, &column) && (row == nest.points[kN] || nest.points[kM] == 1) &&
         (column == 1 || nest.points[kN] == 1);
}

// The epilogue's tape as a FloatTail, where it is one.
void PartBuilder::FindTail(FloatTail* tail) const {
  const Program& program = out_->program;
  const uint32_t first = program.num_same;
  if (out_->nest.points[0] != 1 || program.num_body < first + 3 || program.num_body - first > kMostTail)
    return;
  const Inst &store = program.body[program.num_body - 1], &last = program.body[program.num_body - 2];
  if (store.kind != InstKind::kStore || !IsMatrix(*store.access) || last.kind != InstKind::kOp ||
      last.out != store.a)
    return;
  FloatTail found = {program.body + first, program.num_body - first - 1, -1, store.access, false};
  for (uint32_t i = 0; i < found.count; ++i) {
    const Inst& inst = found.body[i];
    const bool sums = inst.kind == InstKind::kAcc, loads = inst.kind == InstKind::kLoad;
    if ((sums && found.right >= 0) || (loads && !IsMatrix(*inst.access)) ||
        (!sums && !loads && inst.kind != InstKind::kOp))
      return;
    if (sums) found.right = inst.arg;
    found.loads |= loads;
  }
  if (found.right >= 0) *tail = found;
}

}  // namespace rondo::host
