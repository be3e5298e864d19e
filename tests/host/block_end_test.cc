// Epilogues that register blocks of the host driver apply to their sums: they are recognised, and give the
// same results as tapes.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "drivers/host/matmul/matmul_program.h"
#include "tests/host/driver_case.h"
#include "tests/host/prepared.h"
#include "tests/host/random_layout.h"
#include "tests/host/sums_of_bytes.h"

namespace rondo::test {
namespace {

struct BlockEpilogue {
  int added = 0;  // a number of each column, then one of each element
  bool clamps = false, scales = false;
  int64_t gap = 0;  // floats between rows of the result
};

// Ends the part, whose result has the loops `order` with those of columns last.
void EndBlocks(PartMaker& maker, const BlockEpilogue& epilogue, const std::vector<int>& order) {
  TapeMaker tape;
  uint16_t x = tape.Add(TapeOp::kAcc, TapeType::kF32, 0);
  const size_t columns = order.size() - (maker.part.skeleton == Skeleton::kConvolution ? 2 : 1);
  for (int i = 0; i < epilogue.added; ++i) {
    const uint16_t added = maker.Operand(
        DType::kF32, Mode::kRead, i > 0 ? order : std::vector<int>(order.begin() + columns, order.end()));
    x = tape.Binary(TapeOp::kAdd, tape.Load(added, DType::kF32), x);
  }
  if (epilogue.scales) x = tape.Binary(TapeOp::kMul, x, tape.Const(0.5f));
  if (epilogue.clamps) {
    x = tape.Binary(TapeOp::kMin, tape.Binary(TapeOp::kMax, x, tape.Const(0)), tape.Const(2.5f));
  }
  int64_t row = 1, rows = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    (i < columns ? rows : row) *= maker.loops[static_cast<size_t>(order[i])];
  }
  const uint16_t out = maker.Operand(DType::kF32, Mode::kWrite, order, rows * epilogue.gap);
  std::vector<int64_t> strides(maker.operands[out].strides.begin(), maker.operands[out].strides.end());
  for (size_t i = 0; i < columns; ++i) {
    int64_t& stride = strides[static_cast<size_t>(order[i])];
    stride += stride / row * epilogue.gap;
  }
  maker.operands[out].strides = maker.arena->Copy(strides);
  maker.operands[out].offset = 0;
  tape.Store(out, DType::kF32, x);
  maker.part.epilogue = maker.Keep(tape);
}

void MatmulThatEnds(PartMaker& maker, int64_t m, int64_t n, int64_t k, const BlockEpilogue& epilogue) {
  maker.loops = {m, n, k};
  BeginProduct(maker.part);
  maker.part.acc_type = TapeType::kF32;
  maker.part.lhs = maker.Operand(DType::kF32, Mode::kRead, {0, 2});
  maker.part.rhs = maker.arena->Copy(std::vector<uint16_t>{maker.Operand(DType::kF32, Mode::kRead, {2, 1})});
  EndBlocks(maker, epilogue, {0, 1});
}

// Images with channels last.
void ConvolutionThatEnds(PartMaker& maker, int64_t groups, int64_t outputs, int64_t channels,
                         const BlockEpilogue& epilogue) {
  const Windows windows = {11, 1, 1, 1};
  const int64_t count = windows.Count(3);
  maker.loops = {2, groups, outputs, count, count, channels, 3, 3};
  BeginConvolution(maker.part);
  maker.part.acc_type = TapeType::kF32;
  maker.part.lhs = Pictures(maker, DType::kF32, channels, 1, groups * channels, windows, windows);
  maker.operands[maker.part.lhs].absent = 0;
  maker.part.rhs =
      maker.arena->Copy(std::vector<uint16_t>{maker.Operand(DType::kF32, Mode::kRead, {6, 7, 5, 1, 2})});
  EndBlocks(maker, epilogue, {0, 3, 4, 1, 2});
}

constexpr host::Variant kEndedVariants[] = {host::Variant::kGemm, host::Variant::kDirect,
                                            host::Variant::kChannels};
void MakeThatEnds(PartMaker& maker, uint32_t which, Random& random, const BlockEpilogue& epilogue) {
  if (which == 0)
    MatmulThatEnds(maker, Between(random, 9, 250), Between(random, 2, 300), Between(random, 60, 600),
                   epilogue);
  if (which == 1)
    ConvolutionThatEnds(maker, Between(random, 1, 3), Between(random, 2, 64), Between(random, 2, 9),
                        epilogue);
  if (which == 2) ConvolutionThatEnds(maker, Between(random, 2, 70), 1, 1, epilogue);
}

TEST(BlockEnds, AddAndClampSumsAsTapesDo) {
  for (uint32_t seed = 0; seed < 36 && !HasFatalFailure(); ++seed) {
    Random random(seed);
    Arena arena;
    PartMaker maker(&arena);
    const BlockEpilogue epilogue = {static_cast<int>(seed / 3 % 3), seed / 9 % 2 == 1, false,
                                    seed % 4 == 0 ? 3 : 0};
    MakeThatEnds(maker, seed % 3, random, epilogue);
    {
      const Prepared part(maker);
      ASSERT_EQ((*part).variant, kEndedVariants[seed % 3]) << "seed " << seed;
      const host::BlockEnd& end = part.As<host::MatmulPart>().end;
      EXPECT_NE(end.result, nullptr) << "seed " << seed;
      EXPECT_EQ(end.added, epilogue.added);
      EXPECT_EQ(end.high, epilogue.clamps ? 2.5f : HUGE_VALF);
    }
    Memory memory;
    memory.Randomise(maker, random);
    ExpectMatchesReference(maker, memory, "seed " + std::to_string(seed));
  }
}

TEST(BlockEnds, AreNotWhatAlsoMultiplies) {
  for (uint32_t which = 0; which < 3; ++which) {
    Random random(which);
    Arena arena;
    PartMaker maker(&arena);
    MakeThatEnds(maker, which, random, {1, true, true, 0});
    const Prepared part(maker);
    EXPECT_EQ(part.As<host::MatmulPart>().end.result, nullptr);
  }
}

}  // namespace
}  // namespace rondo::test
