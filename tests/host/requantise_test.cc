// Epilogues of sums of bytes that scale and quantise: whole ones, ones that go on from the bytes, and ones
// that need more than those.
#include <gtest/gtest.h>

#include <string>

#include "tests/host/driver_case.h"
#include "tests/host/random_layout.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {
namespace {

// What follows the first bytes.
enum class Then { kStored, kFromBytesAlone, kWithAnother, kTwice, kFloats };

class ScaledEpilogue {
 public:
  ScaledEpilogue(PartMaker& maker, Random& random) : maker_(maker), random_(random) {}

  // A product of [m, k] and [n, k] over loops m, n, k.
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
    if (then == Then::kWithAnother) {
      const uint16_t term = tape_.Cast(tape_.Load(other, DType::kU8), TapeType::kF32, DType::kF32);
      y = tape_.Binary(TapeOp::kAdd, y, tape_.Binary(TapeOp::kMul, term, tape_.Const(0.125f)));
    } else {
      y = tape_.Binary(TapeOp::kMul, y,
                       tape_.Unary(TapeOp::kAbs, tape_.Binary(TapeOp::kAdd, y, tape_.Const(2))));
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
  ScaledEpilogue(maker, random).Make(column, other, static_cast<Then>(seed % 5), row_sum);
  Memory memory;
  FillBytes(maker, random, &memory);
  ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed), {});
}

TEST(SumsOfBytes, AreScaledAndQuantisedAsTheReferenceDoes) {
  for (uint32_t seed = 0; seed < 100 && !testing::Test::HasFatalFailure(); ++seed) RandomEpilogue(seed);
}

}  // namespace
}  // namespace rondo::test
