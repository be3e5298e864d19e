#include "compiler/codegen/cuda/tape_facts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compiler/codegen/cuda/reduce_ops.h"

namespace rondo::cuda {

namespace {

// The constant in f32 register `reg`, if it is one.
std::optional<float> ConstantAt(Tape tape, uint16_t reg) {
  const TapeInst& inst = tape[reg];
  if (inst.op != TapeOp::kConst || inst.type != TapeType::kF32) return std::nullopt;
  return static_cast<float>(inst.imm.f);
}

bool IsFloatOp(const TapeInst& inst, TapeOp op) { return inst.op == op && inst.type == TapeType::kF32; }

bool IsWholeAndSmall(float value) {
  constexpr float kMost = 1 << 16;
  return value == std::trunc(value) && std::abs(value) <= kMost;
}

// min(max(round(x / scale) + zero, low), high). Each name is a register; `low` and `high` are integer
// constants.
struct Quantising {
  uint16_t x = 0, scale = 0;
  std::optional<uint16_t> zero;
  float low = 0, high = 0;
};
std::optional<Quantising> QuantisingAt(Tape tape, size_t k) {
  const TapeInst& min = tape[k];
  if (!IsFloatOp(min, TapeOp::kMin) || !IsFloatOp(tape[min.a], TapeOp::kMax)) return std::nullopt;
  const TapeInst& max = tape[min.a];
  const std::optional<float> high = ConstantAt(tape, min.b), low = ConstantAt(tape, max.b);
  Quantising q;
  const TapeInst* rounded = &tape[max.a];
  if (IsFloatOp(*rounded, TapeOp::kAdd)) {
    q.zero = rounded->b;
    rounded = &tape[rounded->a];
  }
  if (!IsFloatOp(*rounded, TapeOp::kRound) || !IsFloatOp(tape[rounded->a], TapeOp::kDiv)) return std::nullopt;
  if (!high || !low || !(*low <= *high) || !IsWholeAndSmall(*low) || !IsWholeAndSmall(*high))
    return std::nullopt;
  q.x = tape[rounded->a].a;
  q.scale = tape[rounded->a].b;
  q.low = *low;
  q.high = *high;
  return q;
}

// Whether the register holds an integer that fits 8 bits: by its type, or by the value that set this row
// scalar.
bool FitsByte(const Part& part, Tape tape, uint16_t reg) {
  const TapeInst& inst = tape[reg];
  const auto is_byte = [](DType type) { return type == DType::kI8 || type == DType::kU8; };
  switch (inst.op) {
    case TapeOp::kLoad: return is_byte(part.operands[inst.arg].dtype);
    case TapeOp::kCast:
      return is_byte(static_cast<DType>(inst.imm.i)) ||
             (inst.type == TapeType::kF32 && FitsByte(part, tape, inst.a));
    case TapeOp::kScalar: break;
    default: return false;
  }
  bool set = false;
  for (const Stage& stage : part.stages) {
    for (const TapeInst& sets : stage.tape) {
      if (sets.op != TapeOp::kSetScalar && !IsReduction(sets.op)) continue;
      if (sets.arg != inst.arg) continue;
      if (sets.op != TapeOp::kSetScalar || stage.tape[sets.a].op == TapeOp::kScalar ||
          !FitsByte(part, stage.tape, sets.a))
        return false;
      set = true;
    }
  }
  return set;
}

// Whether the register has the same value at all points of a row or of the part: it is a row scalar, or is
// computed from elements at fixed places.
bool IsOneNumber(const Part& part, Tape tape, uint16_t reg) {
  const TapeInst& inst = tape[reg];
  if (inst.op == TapeOp::kConst || inst.op == TapeOp::kScalar) return true;
  if (inst.op == TapeOp::kLoad) {
    const Operand& operand = part.operands[inst.arg];
    return operand.mode == Mode::kRead && operand.guards.empty() && operand.indirects.empty() &&
           std::all_of(operand.strides.begin(), operand.strides.end(), [](int64_t s) { return s == 0; });
  }
  if (ClassOf(inst.op) == OpClass::kLeaf || ClassOf(inst.op) == OpClass::kEffect) return false;
  const uint16_t inputs[] = {inst.a, inst.b, inst.c};
  return std::all_of(inputs, inputs + Inputs(inst.op),
                     [&](uint16_t input) { return IsOneNumber(part, tape, input); });
}

}  // namespace

std::optional<Quantisation> QuantisationAt(Tape tape, size_t k) {
  constexpr float kLeastScale = 0x1p-64f, kGreatestScale = 0x1p64f;
  const std::optional<Quantising> found = QuantisingAt(tape, k);
  if (!found) return std::nullopt;
  const std::optional<float> scale = ConstantAt(tape, found->scale),
                             zero = found->zero ? ConstantAt(tape, *found->zero) : 0.0f;
  if (!scale || !zero || !IsWholeAndSmall(*zero)) return std::nullopt;
  if (!(*scale >= kLeastScale && *scale <= kGreatestScale)) return std::nullopt;
  Quantisation q;
  q.x = found->x;
  q.scale = *scale;
  q.reciprocal = 1.0f / *scale;
  q.zero = *zero;
  q.low = (found->low - *zero) * *scale;
  q.high = (found->high - *zero) * *scale;
  return q;
}

std::optional<QuantisationInRun> QuantisationInRunAt(const Part& part, Tape tape, size_t k) {
  const std::optional<Quantising> found = QuantisingAt(tape, k);
  if (!found || tape[found->scale].type != TapeType::kF32 || !IsOneNumber(part, tape, found->scale))
    return std::nullopt;
  if (found->zero) {
    const std::optional<float> zero = ConstantAt(tape, *found->zero);
    if (zero ? !IsWholeAndSmall(*zero) : !FitsByte(part, tape, *found->zero)) return std::nullopt;
  }
  return QuantisationInRun{found->x, found->scale, found->zero, found->low, found->high};
}

namespace {

// How many registers instruction `inst` reads.
int Reads(const TapeInst& inst) { return ClassOf(inst.op) == OpClass::kEffect ? 1 : Inputs(inst.op); }

bool ReadsRegister(const TapeInst& inst, size_t reg) {
  const uint16_t inputs[] = {inst.a, inst.b, inst.c};
  return std::find(inputs, inputs + Reads(inst), reg) != inputs + Reads(inst);
}

}  // namespace

std::optional<E4M3Quotient> E4M3QuotientAt(Tape tape, size_t k) {
  constexpr float kLeastScale = 0x1p-64f, kGreatestScale = 0x1p64f, kMost = 448;
  const TapeInst& quotient = tape[k];
  if (!IsFloatOp(quotient, TapeOp::kDiv)) return std::nullopt;
  const std::optional<float> scale = ConstantAt(tape, quotient.b);
  if (!scale || !(*scale >= kLeastScale && *scale <= kGreatestScale)) return std::nullopt;
  for (size_t i = k + 1; i < tape.size(); ++i) {
    const TapeInst& inst = tape[i];
    const bool rounds = IsFloatOp(inst, TapeOp::kCast) && inst.imm.i == static_cast<int64_t>(DType::kE4M3);
    if (ReadsRegister(inst, k) && !rounds) return std::nullopt;
  }
  return E4M3Quotient{quotient.a, *scale, 1.0f / *scale, kMost * *scale};
}

namespace {

double CostOf(const TapeInst& inst) {
  constexpr double kDivision = 8, kFunction = 20;
  if (inst.op == TapeOp::kDiv) return kDivision;
  if (ClassOf(inst.op) == OpClass::kLeaf || ClassOf(inst.op) == OpClass::kEffect) return 0;
  return AccuracyOf(inst.op) == Accuracy::kFunction ? kFunction : 1;
}

// The cost of the tape's effects if register `known` (-1: none) is already computed.
double CostOfEffects(Tape tape, int known) {
  std::vector<char> needed(tape.size(), 0);
  double cost = 0;
  for (size_t k = tape.size(); k-- > 0;) {
    const TapeInst& inst = tape[k];
    if (ClassOf(inst.op) != OpClass::kEffect && needed[k] == 0) continue;
    if (static_cast<int>(k) == known) continue;
    cost += CostOf(inst);
    const uint16_t inputs[] = {inst.a, inst.b, inst.c};
    for (int i = 0; i < Reads(inst); ++i) needed[inputs[i]] = 1;
  }
  return cost;
}

// For each register: whether it is a constant, the code, or computed only from these.
std::vector<char> KnownBy(Tape tape, size_t code) {
  std::vector<char> known(tape.size(), 0);
  for (size_t k = 0; k < tape.size(); ++k) {
    const TapeInst& inst = tape[k];
    known[k] = inst.op == TapeOp::kConst || k == code;
    if (known[k] != 0 || ClassOf(inst.op) == OpClass::kLeaf || ClassOf(inst.op) == OpClass::kEffect) continue;
    const uint16_t inputs[] = {inst.a, inst.b, inst.c};
    known[k] = 1;
    for (int i = 0; i < Reads(inst); ++i) known[k] = known[k] != 0 && known[inputs[i]] != 0;
  }
  return known;
}

}  // namespace

bool MadeOf(Tape tape, size_t reg, size_t code) { return KnownBy(tape, code)[reg] != 0; }

std::optional<Tabulation> TabulationOf(const Part& part, Tape tape) {
  constexpr double kLeast = 24, kMostCodes = 256;
  const double whole = CostOfEffects(tape, -1);
  std::optional<Tabulation> best;
  double saved = kLeast;
  for (size_t code = 0; code < tape.size(); ++code) {
    if (!QuantisationAt(tape, code)) continue;
    const double low = tape[tape[tape[code].a].b].imm.f, high = tape[tape[code].b].imm.f;
    if (high - low >= kMostCodes) continue;
    const std::vector<char> known = KnownBy(tape, code);
    for (size_t k = code + 1; k < tape.size(); ++k) {
      const TapeInst& inst = tape[k];
      const auto reg = static_cast<uint16_t>(k);
      const bool holds = inst.type == TapeType::kF32 || FitsInt(part, tape, reg, false);
      if (known[k] == 0 || !holds) continue;
      const double own = whole - CostOfEffects(tape, static_cast<int>(k));
      // The instructions before the code are computed in any case.
      const double gain = own - (whole - CostOfEffects(tape, static_cast<int>(code)));
      if (gain < saved) continue;
      saved = gain;
      best = Tabulation{static_cast<uint16_t>(code), reg, static_cast<int>(low)};
    }
  }
  return best;
}

bool FitsInt(const Part& part, Tape tape, uint16_t reg, bool small_sums) {
  constexpr float kMost = 1 << 30;
  const TapeInst& inst = tape[reg];
  if (inst.type == TapeType::kI64) {
    if (inst.op == TapeOp::kConst) return inst.imm.i == static_cast<int32_t>(inst.imm.i);
    return (inst.op == TapeOp::kAcc && small_sums) ||
           (inst.op == TapeOp::kLoad && IsIntType(part.operands[inst.arg].dtype)) ||
           (inst.op == TapeOp::kCast && IsIntType(static_cast<DType>(inst.imm.i)));
  }
  if (IsFloatOp(inst, TapeOp::kRound)) return FitsInt(part, tape, inst.a, small_sums);
  if (!IsFloatOp(inst, TapeOp::kMin) || !IsFloatOp(tape[inst.a], TapeOp::kMax)) return false;
  const std::optional<float> high = ConstantAt(tape, inst.b), low = ConstantAt(tape, tape[inst.a].b);
  return high && low && std::abs(*high) <= kMost && std::abs(*low) <= kMost && *low <= *high;
}

bool IsRoundedInt(const Part& part, Tape tape, uint16_t reg, bool small_sums) {
  const TapeInst& inst = tape[reg];
  return inst.op == TapeOp::kCast && inst.type == TapeType::kF32 &&
         static_cast<DType>(inst.imm.i) == DType::kF32 && tape[inst.a].type == TapeType::kI64 &&
         FitsInt(part, tape, inst.a, small_sums);
}

bool NeedsFewBits(const Part& part) {
  bool stores = false, few = true;
  ForEachTape(part, [&](Tape tape) {
    for (const TapeInst& inst : tape) {
      if (inst.op != TapeOp::kStore) continue;
      const DType type = part.operands[inst.arg].dtype;
      stores = true;
      few = few && (type == DType::kF16 || type == DType::kBF16 || IsFp8(type));
    }
  });
  return stores && few;
}

bool HasQuickFunction(TapeOp op) {
  return op == TapeOp::kErf || op == TapeOp::kTanh || op == TapeOp::kSigmoid || op == TapeOp::kExp;
}

bool HasSteps(Tape tape) {
  return std::any_of(tape.begin(), tape.end(), [](const TapeInst& inst) {
    switch (inst.op) {
      case TapeOp::kFloor:
      case TapeOp::kCeil:
      case TapeOp::kRound:
      case TapeOp::kTrunc:
      case TapeOp::kMod: return true;
      case TapeOp::kCast: return inst.type == TapeType::kI64;
      default: return ClassOf(inst.op) == OpClass::kCompare;
    }
  });
}

bool IsIntType(DType type) {
  switch (type) {
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kBool: return true;
    default: return false;
  }
}

}  // namespace rondo::cuda
