// Weights that lie in panels (core/weight_panels.h): the host driver reads them in place, with the same
// results.
#include <gtest/gtest.h>

#include <string>

#include "core/weight_panels.h"
#include "drivers/host/convolution/convolution_program.h"
#include "tests/host/driver_case.h"
#include "tests/host/prepared.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {
namespace {

// Adds a bias of the columns, and stores to the loops `order`, columns last.
void EndPanels(PartMaker& maker, const std::vector<int>& columns, std::vector<int> order, bool clamps) {
  order.insert(order.end(), columns.begin(), columns.end());
  const uint16_t bias = maker.Operand(DType::kF32, Mode::kRead, columns);
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, order);
  TapeMaker tape;
  uint16_t x = tape.Add(TapeOp::kAcc, TapeType::kF32, 0);
  x = tape.Binary(TapeOp::kAdd, x, tape.Load(bias, DType::kF32));
  x = clamps ? tape.Binary(TapeOp::kMax, x, tape.Const(0)) : tape.Unary(TapeOp::kTanh, x);
  tape.Store(out, DType::kF32, x);
  maker.part.epilogue = maker.Keep(tape);
}

void MatmulOfPanels(PartMaker& maker, int64_t m, int64_t panels, const std::vector<int64_t>& k, bool clamps) {
  maker.loops = {m, panels, kStoredColumns};
  std::vector<int> left = {0}, right = {1};
  for (int64_t extent : k) {
    left.push_back(static_cast<int>(maker.loops.size()));
    right.push_back(static_cast<int>(maker.loops.size()));
    maker.loops.push_back(extent);
  }
  right.push_back(2);
  BeginProduct(maker.part);
  maker.part.acc_type = TapeType::kF32;
  maker.part.n = 2;
  maker.part.reduced = static_cast<uint8_t>(k.size());
  maker.part.lhs = maker.Operand(DType::kF32, Mode::kRead, left, k.size() == 1 ? 0 : 5);
  maker.part.rhs =
      maker.arena->Copy(std::vector<uint16_t>{maker.Operand(DType::kF32, Mode::kRead, right, 6)});
  EndPanels(maker, {1, 2}, {0}, clamps);
}

void ExpectPanels(PartMaker& maker, host::Variant variant, int64_t apart, Random& random) {
  {
    const Prepared part(maker);
    ASSERT_EQ((*part).variant, variant);
    EXPECT_EQ(variant == host::Variant::kDirect ? part.As<host::DirectPart>().stored
                                                : part.As<host::MatmulPart>().rhs[0].stored,
              apart);
  }
  Memory memory;
  memory.Randomise(maker, random);
  ExpectMatchesReference(maker, memory, "loops " + std::to_string(maker.loops[1]), {1e-4, 1e-3});
}

TEST(Panels, OfMatmulsAreReadInPlace) {
  for (uint32_t seed = 0; seed < 12 && !HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    const int64_t depth = Between(random, 2, 300), panels = seed % 5 == 0 ? 1 : Between(random, 2, 18);
    const int64_t m = Between(random, panels == 1 ? 9 : 1, 120);  // one panel of few rows is streamed
    const std::vector<int64_t> k =
        seed % 3 == 0 ? std::vector<int64_t>{depth / 2 + 1, 3} : std::vector<int64_t>{depth};
    MatmulOfPanels(maker, m, panels, k, seed % 2 == 0);
    int64_t apart = kStoredColumns;
    for (int64_t extent : k) apart *= extent;
    ExpectPanels(maker, host::Variant::kGemm, apart, random);
  }
}

// What one B stores, another one packs.
TEST(Panels, StandBesideWeightsThatAreNone) {
  for (int64_t m : {20, 110}) {
    Random random(static_cast<uint32_t>(m));
    Arena arena;
    PartMaker maker(&arena);
    MatmulOfPanels(maker, m, 17, {270}, true);
    std::vector<uint16_t> rhs = {maker.part.rhs[0], maker.Operand(DType::kF32, Mode::kRead, {3, 1, 2}),
                                 maker.Operand(DType::kF32, Mode::kRead, {1, 2, 3})};
    std::swap(rhs[0], rhs[m == 20 ? 0 : 1]);
    maker.part.rhs = arena.Copy(rhs);
    TapeMaker tape;
    uint16_t x = tape.Add(TapeOp::kAcc, TapeType::kF32, 0);
    for (uint16_t j : {1, 2}) x = tape.Binary(TapeOp::kSub, x, tape.Add(TapeOp::kAcc, TapeType::kF32, j));
    tape.Store(maker.Operand(DType::kF32, Mode::kWrite, {0, 1, 2}), DType::kF32, x);
    maker.part.epilogue = maker.Keep(tape);
    Memory memory;
    memory.Randomise(maker, random);
    ExpectMatchesReference(maker, memory, "rows " + std::to_string(m), {1e-4, 1e-3});
  }
}

// Panels of a convolution are counted by its groups, which share the input. The input of many columns is read
// in place if a panel is a register block's, and taps are short.
TEST(Panels, OfConvolutionsAreReadInPlace) {
  for (uint32_t seed = 0; seed < 12 && !HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    const bool groups = seed % 3 == 0, long_taps = seed % 3 == 2;
    const int64_t panels =
        groups ? Between(random, 2, 5) : Between(random, seed < 6 ? 2 : 17, seed < 6 ? 16 : 20);
    const int64_t channels = long_taps ? Between(random, 513, 520) : Between(random, 2, 30);
    const int64_t taps = seed % 2 == 0 && !long_taps ? 3 : 1;
    const bool in_place = Engines().back().columns == kStoredColumns && !long_taps;
    const bool direct = groups || panels <= 4 || in_place;
    const Windows windows = {long_taps ? 5 : 11, taps / 2, Between(random, 1, 2), 1};
    const int64_t count = windows.Count(taps);
    maker.loops = {2, panels, kStoredColumns, count, count, channels, taps, taps};
    BeginConvolution(maker.part);
    maker.part.acc_type = TapeType::kF32;
    maker.part.lhs = Pictures(maker, DType::kF32, groups ? channels : 0, 1,
                              groups ? channels * panels : channels, windows, windows);
    maker.operands[maker.part.lhs].absent = 0;
    maker.part.rhs =
        maker.arena->Copy(std::vector<uint16_t>{maker.Operand(DType::kF32, Mode::kRead, {1, 6, 7, 5, 2})});
    EndPanels(maker, {1, 2}, {0, 3, 4}, seed % 4 < 2);
    ExpectPanels(maker, direct ? host::Variant::kDirect : host::Variant::kGemm,
                 kStoredColumns * channels * taps * taps, random);
  }
}

}  // namespace
}  // namespace rondo::test
