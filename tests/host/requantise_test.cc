// Epilogues of sums of bytes that scale and quantise: complete ones, ones with further steps after the bytes,
// and ones that need other inputs too.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "drivers/host/map/map_program.h"
#include "drivers/host/matmul/byte_program.h"
#include "drivers/host/module.h"
#include "tests/host/driver_case.h"
#include "tests/host/kernel_plan.h"
#include "tests/host/random_layout.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {
namespace {

// What the epilogue does with the first bytes.
enum class Then { kStored, kFromBytesAlone, kWithAnother, kTwice, kFloats, kFromOtherBytesAlone };

class ScaledEpilogue {
 public:
  ScaledEpilogue(PartMaker& maker, Random& random) : maker_(maker), random_(random) {}

  // An epilogue of a matmul of [m, k] and [n, k] over loops m, n, k.
  void Make(uint16_t column, uint16_t other, Then then, bool row_sum) {
    uint16_t sum = tape_.Add(TapeOp::kAcc, TapeType::kI64, 0);
    if (row_sum) {
      const uint16_t less = tape_.Binary(TapeOp::kSub, sum, tape_.Add(TapeOp::kAcc, TapeType::kI64, 1));
      sum = Narrowed(tape_, less, DType::kI32);
    }
    uint16_t x = tape_.Cast(sum, TapeType::kF32, DType::kF32);
    if (Between(random_, 0, 3) == 0)
      x = tape_.Cast(tape_.Cast(x, TapeType::kI64, DType::kI32), TapeType::kF32, DType::kF32);
    if (Between(random_, 0, 2) > 0) {
      x = tape_.Binary(TapeOp::kMul, x, tape_.Const(0.001f));
      x = tape_.Binary(TapeOp::kAdd, x, tape_.Load(column, DType::kF32));
    }
    const DType type = RandomByte(random_);
    const uint16_t whole = Quantised(x, 0.37f, type == DType::kU8 ? 100 : -20, type);
    const uint16_t byte = tape_.Cast(whole, TapeType::kI64, type);
    if (then == Then::kStored || then == Then::kTwice) Store(type, byte);
    if (then == Then::kStored) return Keep();
    uint16_t y = tape_.Cast(byte, TapeType::kF32, DType::kF32);
    y = tape_.Binary(TapeOp::kMul, tape_.Binary(TapeOp::kSub, y, tape_.Const(11)), tape_.Const(0.37f));
    if (then == Then::kFloats) {
      Store(DType::kF32, y);
      return Keep();
    }
    if (then == Then::kWithAnother || then == Then::kFromOtherBytesAlone) {
      const uint16_t term = tape_.Cast(tape_.Load(other, DType::kU8), TapeType::kF32, DType::kF32);
      y = tape_.Binary(TapeOp::kAdd, y, tape_.Binary(TapeOp::kMul, term, tape_.Const(0.125f)));
    } else {
      y = tape_.Binary(TapeOp::kMul, y,
                       tape_.Unary(TapeOp::kAbs, tape_.Binary(TapeOp::kAdd, y, tape_.Const(2))));
    }
    if (then == Then::kFromOtherBytesAlone) {  // a table of bytes to which a number of the column was added
      const DType between = RandomByte(random_);
      const uint16_t again = Quantised(y, 0.9f, between == DType::kU8 ? 70 : 0, between);
      y = tape_.Cast(tape_.Cast(again, TapeType::kI64, between), TapeType::kF32, DType::kF32);
      for (int i = 0; i < 3; ++i)
        y = tape_.Binary(TapeOp::kDiv, tape_.Binary(TapeOp::kMul, y, y), tape_.Const(100));
    }
    const DType last = RandomByte(random_);
    Store(last, tape_.Cast(Quantised(y, 3.3f, last == DType::kU8 ? 90 : 3, last), TapeType::kI64, last));
    Keep();
  }

 private:
  uint16_t Quantised(uint16_t x, float scale, float zero, DType type) {
    x = tape_.Unary(TapeOp::kRound, tape_.Binary(TapeOp::kDiv, x, tape_.Const(scale)));
    return Clamped(tape_, tape_.Binary(TapeOp::kAdd, x, tape_.Const(zero)), type);
  }
  void Store(DType type, uint16_t x) {
    tape_.Store(maker_.Operand(type, Mode::kWrite, RandomOrder(random_, {0, 1}), 5), type, x);
  }
  void Keep() { maker_.part.epilogue = maker_.Keep(tape_); }

  PartMaker& maker_;
  Random& random_;
  TapeMaker tape_;
};

void RandomEpilogue(uint32_t seed) {
  Random random(seed);
  Arena arena;
  PartMaker maker(&arena);
  Part& part = maker.part;
  BeginProduct(part);
  maker.loops = {Between(random, 1, 150), Between(random, 1, 300), 4 * Between(random, 1, 40)};
  part.lhs = maker.Operand(Between(random, 0, 3) == 0 ? DType::kI8 : DType::kU8, Mode::kRead, {0, 2},
                           Between(random, 0, 2) == 0 ? 3 : 0);
  std::vector<uint16_t> rights = {
      maker.Operand(Between(random, 0, 2) == 0 ? DType::kU8 : DType::kI8, Mode::kRead, {1, 2})};
  const bool row_sum = Between(random, 0, 2) == 0;
  if (row_sum) rights.push_back(maker.Operand(DType::kI8, Mode::kRead, {}));
  part.rhs = arena.Copy(rights);
  const uint16_t column = maker.Operand(DType::kF32, Mode::kRead, {1}),
                 other = maker.Operand(DType::kU8, Mode::kRead, {0, 1});
  ScaledEpilogue(maker, random).Make(column, other, static_cast<Then>(seed % 6), row_sum);
  Memory memory;
  FillBytes(maker, random, &memory);
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
}

TEST(SumsOfBytes, AreScaledAndQuantisedAsTheReferenceDoes) {
  for (uint32_t seed = 0; seed < 120 && !testing::Test::HasFatalFailure(); ++seed) RandomEpilogue(seed);
}

// Values computed from sums as floats: an activation, floats with the result's layout, or both. Results with
// other layouts need a tape.
TEST(SumsOfBytes, FloatsOfThemAreComputedOnWhereTheyAreStored) {
  for (uint32_t seed = 0; seed < 48; ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    Part& part = maker.part;
    BeginProduct(part);
    const bool sigmoid = seed % 2 == 0, adds = seed / 2 % 2 == 0, turned = seed % 7 == 6;
    maker.loops = {Between(random, 2, 150),
                   seed % 3 == 0 ? 16 * Between(random, 1, 20) : Between(random, 2, 300),
                   4 * Between(random, 1, 20)};
    part.lhs = maker.Operand(DType::kU8, Mode::kRead, {0, 2});
    part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kI8, Mode::kRead, {1, 2})});
    const uint16_t column = maker.Operand(DType::kF32, Mode::kRead, {1}),
                   other = maker.Operand(DType::kF32, Mode::kRead, {0, 1}),
                   number = maker.Operand(DType::kF32, Mode::kRead, {});
    TapeMaker tape;
    uint16_t x = tape.Cast(tape.Add(TapeOp::kAcc, TapeType::kI64, 0), TapeType::kF32, DType::kF32);
    x = tape.Binary(TapeOp::kAdd, tape.Binary(TapeOp::kMul, x, tape.Const(1e-5f)),
                    tape.Load(column, DType::kF32));
    uint16_t y = sigmoid ? tape.Unary(TapeOp::kSigmoid, x)
                         : tape.Binary(TapeOp::kMin,
                                       tape.Binary(TapeOp::kMax, tape.Binary(TapeOp::kAdd, x, tape.Const(3)),
                                                   tape.Const(0)),
                                       tape.Const(6));
    y = tape.Binary(TapeOp::kMul, x, y);
    if (adds) y = tape.Binary(TapeOp::kAdd, y, tape.Load(other, DType::kF32));
    y = tape.Binary(TapeOp::kMul, y, tape.Load(number, DType::kF32));
    tape.Store(
        maker.Operand(DType::kF32, Mode::kWrite, turned ? std::vector<int>{1, 0} : std::vector<int>{0, 1}),
        DType::kF32, y);
    part.epilogue = maker.Keep(tape);
    for (const host::Engine& engine : Engines()) {
      KernelPlan plan;
      plan.Add(maker);
      Status status = Status::Ok();
      const std::unique_ptr<host::HostModule> module(
          host::HostModule::Create(plan.data, engine, {}, nullptr, &status));
      ASSERT_TRUE(status.ok()) << status.message();
      const host::PartProgram& part = *module->kernel(0)->parts[0];
      ASSERT_EQ(part.variant, host::Variant::kBytes);
      const auto& built = static_cast<const host::BytesPart&>(part);
      EXPECT_EQ(built.tail.out != nullptr, !turned) << engine.name << " seed " << seed;
    }
    Memory memory;
    FillBytes(maker, random, &memory);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
    if (HasFatalFailure()) return;
  }
}

// Planes, in which the floats of a column are contiguous: whole squares, smaller ones, and rows that end
// within a square.
TEST(SumsOfBytes, FloatsOfThemAreStoredByColumn) {
  for (uint32_t seed = 0; seed < 24 && !testing::Test::HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    Part& part = maker.part;
    BeginProduct(part);
    part.m = 2;
    maker.loops = {Between(random, 1, 3), Between(random, 1, 70), Between(random, 2, 300),
                   4 * Between(random, 1, 20)};
    part.lhs = maker.Operand(DType::kU8, Mode::kRead, {0, 1, 3});
    part.rhs = arena.Copy(std::vector<uint16_t>{maker.Operand(DType::kI8, Mode::kRead, {2, 3})});
    const uint16_t column = maker.Operand(DType::kF32, Mode::kRead, {2});
    TapeMaker tape;
    uint16_t x = tape.Cast(tape.Add(TapeOp::kAcc, TapeType::kI64, 0), TapeType::kF32, DType::kF32);
    x = tape.Binary(TapeOp::kAdd, tape.Binary(TapeOp::kMul, x, tape.Const(1e-3f)),
                    tape.Load(column, DType::kF32));
    if (seed % 2 == 0) x = tape.Binary(TapeOp::kMax, x, tape.Const(0));
    tape.Store(maker.Operand(DType::kF32, Mode::kWrite, {0, 2, 1}, 9), DType::kF32, x);
    part.epilogue = maker.Keep(tape);
    Memory memory;
    FillBytes(maker, random, &memory);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
  }
}

// A tape ends in a table if the functions that it replaces are expensive.
TEST(SumsOfBytes, WhatFollowsFromLaterBytesAloneIsATable) {
  for (const bool expensive : {false, true}) {
    Arena arena;
    PartMaker maker(&arena);
    maker.loops = {500};
    maker.part.outer = 1;
    TapeMaker tape;
    const auto quantised = [&](uint16_t x) {
      x = tape.Unary(TapeOp::kRound, tape.Binary(TapeOp::kDiv, x, tape.Const(0.1f)));
      return tape.Cast(Clamped(tape, x, DType::kU8), TapeType::kI64, DType::kU8);
    };
    const uint16_t in = maker.Operand(DType::kF32, Mode::kRead, {0});
    uint16_t x = tape.Cast(quantised(tape.Load(in, DType::kF32)), TapeType::kF32, DType::kF32);
    if (expensive) x = tape.Binary(TapeOp::kMul, x, tape.Unary(TapeOp::kErf, x));
    tape.Store(maker.Operand(DType::kU8, Mode::kWrite, {0}), DType::kU8, quantised(x));
    maker.part.body = maker.Keep(tape);
    for (const host::Engine& engine : Engines()) {
      KernelPlan plan;
      plan.Add(maker);
      Status status = Status::Ok();
      const std::unique_ptr<host::HostModule> module(
          host::HostModule::Create(plan.data, engine, {}, nullptr, &status));
      ASSERT_TRUE(status.ok()) << status.message();
      const auto& map = static_cast<const host::MapPart&>(*module->kernel(0)->parts[0]);
      const host::Program& program = map.program;
      int tables = 0;
      for (uint32_t k = 0; k < program.num_body; ++k) tables += program.body[k].fn == engine.table;
      EXPECT_EQ(tables, expensive ? 1 : 0) << engine.name;
    }
    Random random(3);
    Memory memory;
    memory.Randomise(maker, random);
    reinterpret_cast<float*>(memory.params[0].data())[7] = std::nanf("");
    ExpectMatchesReference(maker, memory, "", {});
  }
}

}  // namespace
}  // namespace rondo::test
