// The text of kernels that quantise. They multiply by a reciprocal, with the same results as a division.
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

// Tests close to every half, where the last bit of the quotient decides the result, and at random numbers.
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

// The result of a division, and that of quantised_in_run in the device headers with StepsInRun. NaN stays
// NaN.
float Divided(float x, float scale, float zero, float low, float high) {
  const float q = std::nearbyint(x / scale) + zero;
  return q < low ? low : q > high ? high : q;
}
float Stepped(float x, float scale, float zero, float low, float high) {
  const cuda::RunSteps steps = cuda::StepsInRun(scale, low - zero, high - zero);
  x *= steps.factor;
  x = x < steps.low ? steps.low : x > steps.high ? steps.high : x;
  return cuda::WholeSteps(x, steps.scale, steps.reciprocal) + zero;
}

TEST(QuantisedText, StepsInRunAreThoseOfTheDivisionWhateverTheScale) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> mantissa(1, 2), anywhere(-300, 300);
  const auto same = [&](float x, float scale, float zero, float low, float high) {
    const float divided = Divided(x, scale, zero, low, high), stepped = Stepped(x, scale, zero, low, high);
    ASSERT_TRUE(divided == stepped || (std::isnan(divided) && std::isnan(stepped)))
        << x << " / " << scale << " + " << zero << ": " << stepped << " and not " << divided;
  };
  const float strange[] = {0.0f,   -0.0f,  INFINITY, -INFINITY, NAN,    3e38f,
                           -3e38f, 1e-45f, -1e-40f,  1.0f,      1e-20f, 1e30f};
  for (float scale : strange) {
    for (float x : strange) {
      same(x, scale, 0, 0, 255);
      same(x, scale, 128, 0, 255);
      same(x, scale, -3, -128, 127);
    }
  }
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (float sign : {1.0f, -1.0f}) {
      const float scale = sign * std::ldexp(mantissa(random), exponent);
      const float zero = static_cast<float>(exponent & 127);
      for (int n = 0; n < 200; ++n) same(anywhere(random) * scale, scale, zero, 0, 255);
      for (int half = -260; half < 260; half += 1 + exponent % 7 * (exponent > 0)) {
        float x = (static_cast<float>(half) + 0.5f) * scale;
        for (int step = 0; step < 3; ++step) x = std::nextafter(x, -INFINITY);
        for (int step = 0; step < 6; ++step, x = std::nextafter(x, INFINITY)) same(x, scale, zero, 0, 255);
      }
    }
  }
}

// Quotients by a constant, rounded to E4M3, close to the middle between any two neighbouring numbers.
TEST(QuantisedText, QuotientsForE4M3AreThoseOfTheDivision) {
  std::mt19937 random(2);
  std::uniform_real_distribution<float> exponent(-60, 60), mantissa(1, 2);
  for (int s = 0; s < 3000; ++s) {
    const float scale = mantissa(random) * std::exp2(std::trunc(exponent(random))), reciprocal = 1.0f / scale;
    for (int code = 0; code < 0x7e; ++code) {
      const auto below = static_cast<uint8_t>(code), above = static_cast<uint8_t>(code + 1);
      float x = (E4M3ToFloat(below) + E4M3ToFloat(above)) / 2 * scale;
      for (int step = 0; step < 3; ++step) x = std::nextafter(x, -INFINITY);
      for (int step = 0; step < 6; ++step, x = std::nextafter(x, INFINITY))
        ASSERT_EQ(FloatToE4M3(cuda::Quotient(x, scale, reciprocal)), FloatToE4M3(x / scale))
            << x << " / " << scale;
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

TEST(QuantisedText, Fp8ByAConstantHasNoDivision) {
  for (const float scale : {0.03f, 1e-30f, -0.03f}) {  // the second scale's remainders are NaN
    Arena arena;
    PartMaker maker{&arena};
    TapeMaker tape;
    maker.loops = {16, 512};
    maker.part.skeleton = Skeleton::kMap;
    maker.part.outer = 2;
    const uint16_t x = maker.Operand(DType::kF32, Mode::kRead, {0, 1}),
                   y = maker.Operand(DType::kE4M3, Mode::kWrite, {0, 1});
    const uint16_t quotient = tape.Binary(TapeOp::kDiv, tape.Load(x, DType::kF32), tape.Const(scale));
    const uint16_t rounded = tape.Add(TapeOp::kCast, TapeType::kF32, 0, quotient);
    tape.list[rounded].imm.i = static_cast<int64_t>(DType::kE4M3);
    tape.Store(y, DType::kE4M3, rounded);
    maker.part.body = maker.Keep(tape);
    const Kernel kernel = maker.Make();
    const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
    const Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_90a"), facts);
    ASSERT_TRUE(text.ok()) << text.status().message();
    EXPECT_EQ(Has(text->text, "= e4m3_quotient("), scale == 0.03f) << text->text;
    EXPECT_TRUE(Has(text->text, "store_e4m3<"));
  }
}

TEST(QuantisedText, QuantisationByConstantsHasNoDivision) {
  const std::string text = Quantising().Text(0.03f, 128, 0, 255);
  EXPECT_TRUE(Has(text, "= quantised(r0, ") && Has(text, "__float2int_rz(") && Has(text, "store_u8<8>"))
      << text;
  EXPECT_TRUE(Has(Quantising().Text(0.03f, 0, 0, 255), "= quantised("));
  EXPECT_FALSE(Has(Quantising().Text(0.03f, 0.5f, 0, 255), "= quantised("));  // the zero point is no integer
  EXPECT_FALSE(Has(Quantising().Text(0.03f, 0, 255, 0), "= quantised("));     // the range is empty
  EXPECT_FALSE(Has(Quantising().Text(1e-30f, 0, 0, 255), "= quantised("));    // the remainders are NaN
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

// Rows quantised by their own range: scale and zero point are scalars of the row. `byte`: the zero point has
// 8 bits.
std::string TextOfRanges(bool byte, bool by_row) {
  Arena arena;
  PartMaker maker(&arena);
  maker.part.skeleton = Skeleton::kReduction;
  maker.part.outer = maker.part.reduced = 1;
  maker.part.scalars = 3;
  maker.loops = {16, 512};
  const uint16_t x = maker.Operand(DType::kF32, Mode::kRead, {0, 1}),
                 scales = maker.Operand(DType::kF32, Mode::kRead, {1}),
                 y = maker.Operand(DType::kU8, Mode::kWrite, {0, 1});
  TapeMaker most, range, quantise;
  most.Add(TapeOp::kReduceMax, TapeType::kF32, 0, most.Load(x, DType::kF32));
  const uint16_t scale =
      range.Binary(TapeOp::kDiv, range.Add(TapeOp::kScalar, TapeType::kF32, 0), range.Const(255));
  range.Add(TapeOp::kSetScalar, TapeType::kF32, 1, scale);
  uint16_t zero =
      range.Binary(TapeOp::kMax, range.Binary(TapeOp::kDiv, range.Const(3), scale), range.Const(0));
  zero = range.Unary(TapeOp::kRound, range.Binary(TapeOp::kMin, zero, range.Const(255)));
  if (byte) zero = range.Cast(range.Cast(zero, TapeType::kI64, DType::kU8), TapeType::kF32, DType::kF32);
  range.Add(TapeOp::kSetScalar, TapeType::kF32, 2, zero);
  const uint16_t by =
      by_row ? quantise.Add(TapeOp::kScalar, TapeType::kF32, 1) : quantise.Load(scales, DType::kF32);
  uint16_t q =
      quantise.Unary(TapeOp::kRound, quantise.Binary(TapeOp::kDiv, quantise.Load(x, DType::kF32), by));
  q = quantise.Binary(TapeOp::kAdd, q, quantise.Add(TapeOp::kScalar, TapeType::kF32, 2));
  q = quantise.Binary(TapeOp::kMin, quantise.Binary(TapeOp::kMax, q, quantise.Const(0)), quantise.Const(255));
  quantise.Store(y, DType::kU8, quantise.Cast(q, TapeType::kI64, DType::kU8));
  const std::vector<Stage> stages = {
      {false, maker.Keep(most)}, {true, maker.Keep(range)}, {false, maker.Keep(quantise)}};
  maker.part.stages = arena.Copy(stages);
  const Kernel kernel = maker.Make();
  const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
  Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_90a"), facts);
  EXPECT_TRUE(text.ok()) << text.status().message();
  if (!text.ok()) return "";
  const Result<std::vector<uint8_t>> code = CompileCuda(text->text, "sm_90a", "");
  EXPECT_TRUE(code.ok() || code.status().code() == Code::kUnsupported) << code.status().message();
  return text->text;
}

TEST(QuantisedText, RowsThatAreQuantisedByTheirRangeDivideNoElement) {
  const char* words = "= quantised_in_run(r2_";
  const std::string text = TextOfRanges(true, true);
  EXPECT_TRUE(Has(text, words)) << text;
  EXPECT_TRUE(Has(text, "cast_i64<8>((i64)__float2int_rz(r1_")) << text;  // the zero point
  EXPECT_FALSE(Has(TextOfRanges(false, true), "quantised_in_run("));      // the zero point may be any number
  EXPECT_FALSE(Has(TextOfRanges(true, false), "quantised_in_run("));      // a scale for each element
}

// erf of an 8-bit number, which is computed once for each number, as a table. A value that also reads
// something else is not in the table.
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
  EXPECT_FALSE(Activation(127, true, false).Found());  // too cheap for a table
}

// In a matmul, 256 threads compute one number each, and NaN.
TEST(QuantisedText, TheThreadsOfAMatmulMakeTheTable) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {64, 64, 128};
  maker.part.skeleton = Skeleton::kMatMul;
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

// What follows the sum of a ConvInteger: a product is subtracted, then casts to f32, to i32 and to f32, all
// in 32 bits. Values that are the same in every row are read once.
TEST(QuantisedText, SumsOf32BitsStayThere) {
  Arena arena;
  PartMaker maker(&arena);
  maker.loops = {64, 64, 128};
  maker.part.skeleton = Skeleton::kMatMul;
  maker.part.m = maker.part.n = maker.part.reduced = 1;
  maker.part.acc_type = TapeType::kI64;
  maker.part.lhs = maker.Operand(DType::kU8, Mode::kRead, {0, 2});
  maker.part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kI8, Mode::kRead, {1, 2})});
  const uint16_t zero = maker.Operand(DType::kU8, Mode::kRead, {}),
                 columns = maker.Operand(DType::kI32, Mode::kRead, {1}),
                 added = maker.Operand(DType::kF32, Mode::kRead, {0, 1}),
                 out = maker.Operand(DType::kF32, Mode::kWrite, {0, 1});
  TapeMaker tape;
  const auto wrapped = [&](uint16_t value) {
    const uint16_t cast = tape.Add(TapeOp::kCast, TapeType::kI64, 0, value);
    tape.list[cast].imm.i = static_cast<int64_t>(DType::kI32);
    return cast;
  };
  const uint16_t sum = tape.Add(TapeOp::kAcc, TapeType::kI64, 0), number = tape.Load(zero, DType::kU8),
                 column = tape.Load(columns, DType::kI32);
  const uint16_t taken = wrapped(tape.Binary(TapeOp::kMul, number, column));
  uint16_t y = tape.Cast(wrapped(tape.Binary(TapeOp::kSub, sum, taken)), TapeType::kF32, DType::kF32);
  y = tape.Cast(wrapped(y), TapeType::kF32, DType::kF32);
  tape.Store(out, DType::kF32, tape.Binary(TapeOp::kAdd, y, tape.Load(added, DType::kF32)));
  maker.part.epilogue = maker.Keep(tape);
  const Kernel kernel = maker.Make();
  const std::vector<cuda::ParamFacts> facts(kernel.num_params, {256, false});
  const Result<KernelText> text = WriteKernelText(kernel, TargetOf("sm_90a"), facts);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_TRUE(Has(text->text, "matmul_imma<") && Has(text->text, "(i64)(int)((u32)r1 * (u32)r2)") &&
              Has(text->text, "(i64)(int)((u32)r0 - (u32)r4)") && Has(text->text, "rounded_int(r7)"))
      << text->text;
  const size_t fetch = text->text.find("auto fetch"), epilogue = text->text.find("auto epilogue");
  ASSERT_TRUE(fetch < epilogue && epilogue != std::string::npos) << text->text;
  const auto param = [&](uint16_t operand) { return "(p" + std::to_string(maker.operands[operand].param); };
  EXPECT_LT(text->text.find("load_words<4>" + param(columns)), epilogue) << text->text;
  EXPECT_GT(text->text.find("load_words<4>" + param(added)), epilogue) << text->text;
  const Result<std::vector<uint8_t>> code = CompileCuda(text->text, "sm_90a", "");
  EXPECT_TRUE(code.ok() || code.status().code() == Code::kUnsupported) << code.status().message();
}

}  // namespace
}  // namespace rondo::test
