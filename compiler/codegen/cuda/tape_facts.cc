#include "compiler/codegen/cuda/tape_facts.h"

#include <cmath>

namespace rondo::cuda {

namespace {

// The constant that f32 register `reg` is.
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

// Whether every value of the type is an int.
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

}  // namespace

std::optional<Quantisation> QuantisationAt(Tape tape, size_t k) {
  constexpr float kLeastScale = 0x1p-64f, kGreatestScale = 0x1p64f;
  const TapeInst& min = tape[k];
  if (!IsFloatOp(min, TapeOp::kMin) || !IsFloatOp(tape[min.a], TapeOp::kMax)) return std::nullopt;
  const TapeInst& max = tape[min.a];
  const std::optional<float> high = ConstantAt(tape, min.b), low = ConstantAt(tape, max.b);
  Quantisation q;
  const TapeInst* rounded = &tape[max.a];
  if (IsFloatOp(*rounded, TapeOp::kAdd)) {
    const std::optional<float> zero = ConstantAt(tape, rounded->b);
    if (!zero) return std::nullopt;
    q.zero = *zero;
    rounded = &tape[rounded->a];
  }
  if (!IsFloatOp(*rounded, TapeOp::kRound) || !IsFloatOp(tape[rounded->a], TapeOp::kDiv)) return std::nullopt;
  const TapeInst& quotient = tape[rounded->a];
  const std::optional<float> scale = ConstantAt(tape, quotient.b);
  if (!high || !low || !scale || !(*low <= *high)) return std::nullopt;
  for (float value : {*high, *low, q.zero}) {
    if (!IsWholeAndSmall(value)) return std::nullopt;
  }
  if (!(*scale >= kLeastScale && *scale <= kGreatestScale)) return std::nullopt;
  q.x = quotient.a;
  q.scale = *scale;
  q.reciprocal = 1.0f / *scale;
  q.low = (*low - q.zero) * *scale;
  q.high = (*high - q.zero) * *scale;
  return q;
}

bool FitsInt(const Part& part, Tape tape, uint16_t reg, bool small_sums) {
  constexpr float kMost = 1 << 30;
  const TapeInst& inst = tape[reg];
  if (inst.type == TapeType::kI64) {
    return (inst.op == TapeOp::kAcc && small_sums) ||
           (inst.op == TapeOp::kLoad && IsIntType(part.operands[inst.arg].dtype)) ||
           (inst.op == TapeOp::kCast && IsIntType(static_cast<DType>(inst.imm.i)));
  }
  if (!IsFloatOp(inst, TapeOp::kMin) || !IsFloatOp(tape[inst.a], TapeOp::kMax)) return false;
  const std::optional<float> high = ConstantAt(tape, inst.b), low = ConstantAt(tape, tape[inst.a].b);
  return high && low && std::abs(*high) <= kMost && std::abs(*low) <= kMost && *low <= *high;
}

}  // namespace rondo::cuda
