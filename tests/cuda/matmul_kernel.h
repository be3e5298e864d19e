// Kernels of one matmul, as libraries compute them, for tests.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "tests/host/kernel_maker.h"

namespace rondo::test {

struct MatmulSize {
  int64_t batches = 1, rows = 1, columns = 1, depth = 1;
  bool right_by_depth = false;  // B is contiguous along K
  bool left_by_rows = false;    // A is contiguous along M
};

enum class Activation { kNone, kRelu, kGeluTanh, kGeluErf };
struct ProductEnd {
  bool bias = false, addend = false;
  Activation activation = Activation::kNone;
};
inline constexpr ProductEnd kProductEnds[] = {
    {},
    {true},
    {false, true},
    {true, true},
    {true, false, Activation::kRelu},
    {false, false, Activation::kGeluTanh},
    {true, true, Activation::kGeluTanh},
};

// out = activation(left right + bias + addend) with operands of `type`, stored as `out`. Each operand has a
// parameter, in the order left, right, out, bias, addend.
class MatmulKernel {
 public:
  MatmulKernel(const MatmulSize& s, DType type, DType out, const ProductEnd& end, bool tf32 = false)
      : maker_(&arena_) {
    maker_.loops = {s.batches, s.rows, s.columns, s.depth};
    Part& part = maker_.part;
    part.skeleton = Skeleton::kMatMul;
    part.outer = part.m = part.n = part.reduced = 1;
    part.tf32 = tf32;
    part.lhs = maker_.Operand(type, Mode::kRead,
                              s.left_by_rows ? std::vector<int>{0, 3, 1} : std::vector<int>{0, 1, 3});
    part.rhs = arena_.Copy(std::vector<uint16_t>{maker_.Operand(
        type, Mode::kRead, s.right_by_depth ? std::vector<int>{0, 2, 3} : std::vector<int>{0, 3, 2})});
    const uint16_t to = maker_.Operand(out, Mode::kWrite, {0, 1, 2});
    TapeMaker tape;
    uint16_t x = tape.Add(TapeOp::kAcc, TapeType::kF32);
    if (end.bias) x = tape.Binary(TapeOp::kAdd, x, tape.Load(maker_.Operand(out, Mode::kRead, {2}), out));
    if (end.addend)
      x = tape.Binary(TapeOp::kAdd, tape.Load(maker_.Operand(out, Mode::kRead, {0, 1, 2}), out), x);
    x = Activate(&tape, x, end.activation);
    tape.Store(to, out, x);
    part.epilogue = maker_.Keep(tape);
    kernel_ = maker_.Make();
    for (size_t p = 0; p < maker_.sizes.size(); ++p)
      bytes_.push_back(static_cast<uint64_t>(maker_.sizes[p] * ByteSize(maker_.dtypes[p])));
    text_ = std::string(Name(type)) + "_to_" + Name(out) + (tf32 ? "_tf32" : "") + "_" +
            std::to_string(s.batches) + "x" + std::to_string(s.rows) + "x" + std::to_string(s.columns) + "x" +
            std::to_string(s.depth) + (s.right_by_depth ? "_right_by_depth" : "") +
            (s.left_by_rows ? "_left_by_rows" : "") + (end.bias ? "_bias" : "") +
            (end.addend ? "_addend" : "") + "_activation" + std::to_string(static_cast<int>(end.activation));
  }
  MatmulKernel(const MatmulKernel&) = delete;

  const Kernel& kernel() const { return kernel_; }
  const std::vector<uint64_t>& bytes() const { return bytes_; }  // of each parameter
  const std::string& text() const { return text_; }
  PartMaker& maker() { return maker_; }
  // The kernel after changes through maker().
  Kernel Again() { return maker_.Make(); }

 private:
  static uint16_t Activate(TapeMaker* tape, uint16_t x, Activation activation) {
    auto times = [&](uint16_t a, float b) { return tape->Binary(TapeOp::kMul, a, tape->Const(b)); };
    auto plus = [&](uint16_t a, float b) { return tape->Binary(TapeOp::kAdd, a, tape->Const(b)); };
    switch (activation) {
      case Activation::kNone: return x;
      case Activation::kRelu: return tape->Binary(TapeOp::kMax, x, tape->Const(0));
      case Activation::kGeluTanh: {
        const uint16_t cube = tape->Binary(TapeOp::kMul, tape->Binary(TapeOp::kMul, x, x), x);
        const uint16_t inner = tape->Binary(TapeOp::kAdd, x, times(cube, 0.044715f));
        const uint16_t t = tape->Unary(TapeOp::kTanh, times(inner, 0.7978845608f));
        return tape->Binary(TapeOp::kMul, times(x, 0.5f), plus(t, 1));
      }
      case Activation::kGeluErf: {
        const uint16_t erf = tape->Unary(TapeOp::kErf, times(x, 0.70710678f));
        return tape->Binary(TapeOp::kMul, times(x, 0.5f), plus(erf, 1));
      }
    }
    return x;
  }

  Arena arena_;
  PartMaker maker_;
  Kernel kernel_;
  std::vector<uint64_t> bytes_;
  std::string text_;
};

}  // namespace rondo::test
