// Quantisation in the text of kernels: by a reciprocal, and the same numbers as by a division.
#include <gtest/gtest.h>
#include <math.h>

#include <cmath>
#include <random>

#include "compiler/codegen/cuda/device/quantised_steps.h"
#include "compiler/codegen/cuda/kernel_text.h"
#include "compiler/codegen/cuda/nvrtc.h"
#include "compiler/codegen/cuda/tape_facts.h"
#include "tests/host/random_layout.h"

namespace rondo::test {
namespace {

// Next to every half, where another last place of the quotient is another number, and anywhere.
TEST(QuantisedText, WholeStepsAreThoseOfTheDivision) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-60, 60), mantissa(1, 2), anywhere(-300, 300);
  for (int s = 0; s < 3000; ++s) {
    const float scale = mantissa(random) * std::exp2(std::trunc(exponent(random))), reciprocal = 1.0f / scale;
    const auto same = [&](float x) {
      ASSERT_EQ(cuda::WholeSteps(x, scale, reciprocal), std::nearbyint(x / scale)) << x << " / " << scale;
    };
    for (int n = 0; n < 100; ++n) same(anywhere(random) * scale);
    for (int half = -260; half < 260; half += 1 + s % 7) {
      float x = (static_cast<float>(half) + 0.5f) * scale;
      for (int step = 0; step < 3; ++step) x = std::nextafter(x, -INFINITY);
      for (int step = 0; step < 6; ++step, x = std::nextafter(x, INFINITY)) same(x);
    }
  }
}

struct Quantising {
  Arena arena;
  PartMaker maker{&arena};
  TapeMaker tape;
  uint16_t x, y;

  Quantising() {
    maker.loops = {16, 512};
    maker.part.skeleton = Skeleton::kMap;
    maker.part.outer = 2;
    x = maker.Operand(DType::kF32, Mode::kRead, {0, 1});
    y = maker.Operand(DType::kU8, Mode::kWrite, {0, 1});
  }
  std::string Text(float scale, float zero, float low, float high) {
    const uint16_t value = tape.Load(x, DType::kF32);
    uint16_t q = tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kDiv, value, tape.Const(scale)));
    if (zero != 0) q = tape.Binary(TapeOp::kAdd, q, tape.Const(zero));
    q = tape.Binary(TapeOp::kMax, q, tape.Const(low));
    q = tape.Binary(TapeOp::kMin, q, tape.Const(high));
    tape.Store(y, DType::kU8, tape.Cast(q, TapeType::kI64, DType::kU8));
    maker.part.body = maker.Keep(tape);
    const Kernel kernel = maker.Make();
    const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
    Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_90a"), facts);
    EXPECT_TRUE(text.ok()) << text.status().message();
    if (!text.ok()) return "";
    const Result<std::vector<uint8_t>> code = CompileCuda(text->text, "sm_90a", "");
    EXPECT_TRUE(code.ok() || code.status().code() == Code::kUnsupported) << code.status().message();
    return text->text;
  }
};

bool Has(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

TEST(QuantisedText, QuantisationByConstantsHasNoDivision) {
  const std::string text = Quantising().Text(0.03f, 128, 0, 255);
  EXPECT_TRUE(Has(text, "= quantised(r0, ") && Has(text, "__float2int_rz(") && Has(text, "store_u8<8>"))
      << text;
  EXPECT_TRUE(Has(Quantising().Text(0.03f, 0, 0, 255), "= quantised("));
  EXPECT_FALSE(Has(Quantising().Text(0.03f, 0.5f, 0, 255), "= quantised("));  // no whole number
  EXPECT_FALSE(Has(Quantising().Text(0.03f, 0, 255, 0), "= quantised("));     // nothing between
  EXPECT_FALSE(Has(Quantising().Text(1e-30f, 0, 0, 255), "= quantised("));  // remainders that are no numbers
  EXPECT_FALSE(Has(Quantising().Text(-0.03f, 0, 0, 255), "= quantised("));
  EXPECT_FALSE(Has(Quantising().Text(0.03f, 0, 0, 1e9f), "= quantised("));
}

TEST(QuantisedText, TheBoundsAreTheProductsWithTheLeastAndTheGreatestNumber) {
  Quantising q;
  q.Text(0.25f, 7, -3, 90);
  const Tape tape(q.tape.list.data(), q.tape.list.size());
  size_t min = 0;
  for (size_t k = 0; k < tape.size(); ++k) min = tape[k].op == TapeOp::kMin ? k : min;
  const std::optional<cuda::Quantisation> found = cuda::QuantisationAt(tape, min);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->low, -2.5f);
  EXPECT_EQ(found->high, 20.75f);
  EXPECT_EQ(found->zero, 7);
  EXPECT_EQ(found->reciprocal, 4);
  EXPECT_FALSE(cuda::QuantisationAt(tape, min - 1));
}

// erf of a number of 8 bits: computed for each number once. What reads something else as well is not in the
// table.
struct Activation {
  Quantising q;
  uint16_t code = 0, result = 0;

  Activation(float high, bool other, bool heavy) {
    const uint16_t x = q.tape.Load(q.x, DType::kF32);
    uint16_t y = q.tape.Unary(TapeOp::kRound, q.tape.Binary(TapeOp::kDiv, x, q.tape.Const(0.1f)));
    y = q.tape.Binary(TapeOp::kMax, q.tape.Binary(TapeOp::kAdd, y, q.tape.Const(5)), q.tape.Const(-100));
    code = y = q.tape.Binary(TapeOp::kMin, y, q.tape.Const(high));
    for (int n = 0; heavy && n < 2; ++n)
      y = q.tape.Unary(TapeOp::kErf, q.tape.Binary(TapeOp::kMul, y, q.tape.Const(0.1f)));
    result = y;
    if (other) y = q.tape.Binary(TapeOp::kAdd, y, x);
    q.tape.Store(q.y, DType::kU8, q.tape.Cast(y, TapeType::kI64, DType::kU8));
  }
  std::optional<cuda::Tabulation> Found() {
    return cuda::TabulationOf(q.maker.part, Tape(q.tape.list.data(), q.tape.list.size()));
  }
};

TEST(QuantisedText, WhatDependsOnFewNumbersAloneIsATable) {
  Activation read(127, true, true);
  const std::optional<cuda::Tabulation> table = read.Found();
  ASSERT_TRUE(table);
  EXPECT_EQ(table->code, read.code);
  EXPECT_EQ(table->result, read.result);
  EXPECT_EQ(table->low, -100);
  EXPECT_FALSE(Activation(200, true, true).Found());   // more than 256 numbers
  EXPECT_FALSE(Activation(127, true, false).Found());  // worth no table
}

// Of a matmul: 256 threads, a number each, and NaN.
TEST(QuantisedText, TheThreadsOfAMatmulMakeTheTable) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {64, 64, 128};
  maker.part.skeleton = Skeleton::kContraction;
  maker.part.m = maker.part.n = maker.part.reduced = 1;
  maker.part.acc_type = TapeType::kI64;
  maker.part.lhs = maker.Operand(DType::kI8, Mode::kRead, {0, 2});
  maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kI8, Mode::kRead, {1, 2})});
  const uint16_t out = maker.Operand(DType::kI8, Mode::kWrite, {0, 1});
  TapeMaker tape;
  uint16_t y = tape.Cast(tape.Add(TapeOp::kAcc, TapeType::kI64, 0), TapeType::kF32, DType::kF32);
  y = tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kDiv, y, tape.Const(100)));
  y = tape.Binary(TapeOp::kMin, tape.Binary(TapeOp::kMax, y, tape.Const(-128)), tape.Const(127));
  y = tape.Unary(TapeOp::kTanh, tape.Unary(TapeOp::kErf, tape.Binary(TapeOp::kMul, y, tape.Const(0.01f))));
  y = tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kDiv, y, tape.Const(0.01f)));
  y = tape.Binary(TapeOp::kMin, tape.Binary(TapeOp::kMax, y, tape.Const(-128)), tape.Const(127));
  tape.Store(out, DType::kI8, tape.Cast(y, TapeType::kI64, DType::kI8));
  maker.part.epilogue = maker.Keep(tape);
  const Kernel kernel = maker.Make();
  const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
  const Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_90a"), facts);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_TRUE(Has(text->text, "table[threadIdx.x] = entry((float)((int)threadIdx.x + (-128)));"))
      << text->text;
  EXPECT_TRUE(Has(text->text, "= table[r")) << text->text;
  const Result<std::vector<uint8_t>> code = CompileCuda(text->text, "sm_90a", "");
  EXPECT_TRUE(code.ok() || code.status().code() == Code::kUnsupported) << code.status().message();
}

}  // namespace
}  // namespace rondo::test
