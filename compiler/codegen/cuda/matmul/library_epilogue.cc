#include "compiler/codegen/cuda/matmul/library_epilogue.h"

#include <cmath>

namespace rondo::cuda {

namespace {

// Matches registers of one tape against expressions.
class Matcher {
 public:
  explicit Matcher(Tape tape) : tape_(tape) {}

  const TapeInst& operator[](uint16_t reg) const { return tape_[reg]; }
  bool Is(uint16_t reg, TapeOp op) const { return tape_[reg].op == op && tape_[reg].type == TapeType::kF32; }
  bool IsConst(uint16_t reg, double value) const {
    return Is(reg, TapeOp::kConst) && std::fabs(tape_[reg].imm.f - value) <= 1e-5 * std::fabs(value);
  }
  // One operand of a commutative `op`, if the other is this constant.
  std::optional<uint16_t> WithConst(uint16_t reg, TapeOp op, double value) const {
    if (!Is(reg, op)) return std::nullopt;
    const TapeInst& inst = tape_[reg];
    if (IsConst(inst.b, value)) return inst.a;
    if (IsConst(inst.a, value)) return inst.b;
    return std::nullopt;
  }

  std::optional<uint16_t> Relu(uint16_t reg) const {
    return Is(reg, TapeOp::kMax) ? WithConst(reg, TapeOp::kMax, 0) : std::nullopt;
  }

  // x of 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
  std::optional<uint16_t> GeluTanh(uint16_t reg) const {
    if (!Is(reg, TapeOp::kMul)) return std::nullopt;
    for (const auto& [half, other] :
         {std::pair(tape_[reg].a, tape_[reg].b), std::pair(tape_[reg].b, tape_[reg].a)}) {
      const auto x = WithConst(half, TapeOp::kMul, 0.5);
      const auto tanh = WithConst(other, TapeOp::kAdd, 1);
      if (x && tanh && Is(*tanh, TapeOp::kTanh) && IsInner(tape_[*tanh].a, *x)) return x;
    }
    return std::nullopt;
  }

 private:
  bool IsInner(uint16_t reg, uint16_t x) const {
    const auto sum = WithConst(reg, TapeOp::kMul, std::sqrt(2.0 / std::acos(-1.0)));
    if (!sum || !Is(*sum, TapeOp::kAdd)) return false;
    const TapeInst& add = tape_[*sum];
    return (add.a == x && IsCubic(add.b, x)) || (add.b == x && IsCubic(add.a, x));
  }
  bool IsCubic(uint16_t reg, uint16_t x) const {
    const auto cube = WithConst(reg, TapeOp::kMul, 0.044715);
    if (!cube || !Is(*cube, TapeOp::kMul)) return false;
    const TapeInst& matmul = tape_[*cube];
    return (matmul.a == x && IsSquare(matmul.b, x)) || (matmul.b == x && IsSquare(matmul.a, x));
  }
  bool IsSquare(uint16_t reg, uint16_t x) const {
    return Is(reg, TapeOp::kMul) && tape_[reg].a == x && tape_[reg].b == x;
  }

  Tape tape_;
};

// The leaves of a tree of additions: the accumulator once, and loads.
bool ReadSum(const Matcher& tape, uint16_t reg, bool* has_sum, std::vector<uint16_t>* added) {
  const TapeInst& inst = tape[reg];
  if (tape.Is(reg, TapeOp::kAdd)) {
    return ReadSum(tape, inst.a, has_sum, added) && ReadSum(tape, inst.b, has_sum, added);
  }
  if (tape.Is(reg, TapeOp::kAcc) && !*has_sum) return *has_sum = true;
  if (!tape.Is(reg, TapeOp::kLoad)) return false;
  added->push_back(inst.arg);
  return added->size() <= 2;
}

}  // namespace

std::optional<LibraryEpilogue> ReadLibraryEpilogue(const Part& part) {
  if (part.epilogue.empty() || part.epilogue.size() > 32) return std::nullopt;
  LibraryEpilogue epilogue;
  const Matcher tape(part.epilogue);
  for (size_t i = 0; i + 1 < part.epilogue.size(); ++i) {
    if (part.epilogue[i].op == TapeOp::kStore) return std::nullopt;
  }
  const TapeInst& store = part.epilogue.back();
  if (store.op != TapeOp::kStore || store.type != TapeType::kF32) return std::nullopt;
  epilogue.out = store.arg;
  uint16_t value = store.a;
  // The store rounds anyway.
  if (tape.Is(value, TapeOp::kCast) && tape[tape[value].a].type == TapeType::kF32 &&
      tape[value].imm.i == static_cast<int64_t>(part.operands[store.arg].dtype)) {
    value = tape[value].a;
  }
  if (const auto x = tape.Relu(value)) {
    epilogue.activation = MatmulEpilogue::kRelu;
    value = *x;
  } else if (const auto y = tape.GeluTanh(value)) {
    epilogue.activation = MatmulEpilogue::kGeluTanh;
    value = *y;
  }
  bool has_sum = false;
  if (!ReadSum(tape, value, &has_sum, &epilogue.added) || !has_sum) return std::nullopt;
  return epilogue;
}

}  // namespace rondo::cuda
