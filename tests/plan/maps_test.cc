// Tensor maps of kernel binaries: they obey TMA's limits, and reach no byte that the kernel may not touch.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/plan/broken.h"
#include "tests/plan/matmul_plan.h"
#include "tests/plan/round_trip.h"

namespace rondo {
namespace {

TensorMap& Map(Sample& s, size_t i = 0) { return Edit(BinaryOf(s).tensor_maps, i); }

void Rely(Sample& s, std::vector<uint32_t> assumes) { BinaryOf(s).assumes = s.arena.Copy(assumes); }

TEST(Assumptions, WhatTheBindingsKeepIsGood) {
  Sample s = MakeMapSample();
  Rely(s, {64, kAssumesConstant | 64, 4, 4, 4, 16});
  EXPECT_TRUE(VerifyPlan(s.data).ok()) << VerifyPlan(s.data).message();
}

TEST(TensorMaps, TheSampleIsGood) {
  const Sample s = MakeMapSample();
  EXPECT_TRUE(VerifyPlan(s.data).ok()) << VerifyPlan(s.data).message();
}

TEST(TensorMaps, RoundTripKeepsEverything) {
  const Sample s = MakeMapSample();
  Arena arena;
  Result<PlanFile> plan = RoundTrip(s, arena);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const KernelBinary& binary = plan->data.modules[0].binaries[0];
  EXPECT_EQ(binary.block, 288u);
  ASSERT_EQ(binary.tensor_maps.size(), 2u);
  const TensorMap& w = binary.tensor_maps[1];
  EXPECT_EQ(w.param, 1);
  EXPECT_EQ(w.dtype, DType::kF32);
  EXPECT_EQ(w.rank, 2u);
  EXPECT_EQ(w.extents[1], 16u);
  EXPECT_EQ(w.strides[0], 32u);
  EXPECT_EQ(w.box[1], 16u);
  EXPECT_EQ(w.swizzle, 32u);
}

class MapRules : public BrokenSample {};

TEST_P(MapRules, Broken) { VerifierRefuses(MakeMapSample()); }

const Broken kRules[] = {
    {"ThreadsOfABlock", [](Sample& s) { BinaryOf(s).block = 1025; }, "threads a block, 1025"},
    {"AssumptionOfTooFewParameters",
     [](Sample& s) {
       Rely(s, {1, 1});
     },
     "relies on, 2 is not within 6"},
    {"AssumptionOnNoPowerOfTwo",
     [](Sample& s) {
       Rely(s, {12, 1, 1, 1, 1, 1});
     },
     "alignment 12"},
    {"AssumptionOnMoreThanAPage",
     [](Sample& s) {
       Rely(s, {8192, 1, 1, 1, 1, 1});
     },
     "alignment 8192"},
    {"BoundWhereLessIsAligned",
     [](Sample& s) {
       Rely(s, {128, 1, 1, 1, 1, 1});
       BufferOf(s, kProductX).alignment = 64;
     },
     "aligned to 64) for accesses of 128 bytes"},
    {"BoundWhatMayChange",
     [](Sample& s) {
       Rely(s, {kAssumesConstant | 4, 1, 1, 1, 1, 1});
     },
     "of kind input: constants, and nothing else"},
    {"Param", [](Sample& s) { Map(s).param = 6; }, "tensor map 0: parameter 6"},
    {"DType", [](Sample& s) { Map(s).dtype = DType::kI8; }, "dtype"},
    {"NoRank", [](Sample& s) { Map(s).rank = 0; }, "rank 0"},
    {"Rank", [](Sample& s) { Map(s).rank = 6; }, "rank 6"},
    {"NoExtent", [](Sample& s) { Map(s, 1).extents[1] = 0; }, "extent 0"},
    {"Box", [](Sample& s) { Map(s).box[1] = 257; }, "box 257"},
    {"NoBox", [](Sample& s) { Map(s).box[1] = 0; }, "box 0"},
    {"OddStride", [](Sample& s) { Map(s).strides[0] = 24; }, "stride 24"},
    {"NoStride", [](Sample& s) { Map(s).strides[0] = 0; }, "stride 0"},
    {"HugeStride", [](Sample& s) { Map(s).strides[0] = uint64_t{1} << 40; }, "stride 1099511627776"},
    {"TooFar",
     [](Sample& s) {
       Map(s).rank = 3;
       Map(s).extents[1] = Map(s).extents[2] = uint64_t{1} << 32;
       Map(s).strides[0] = Map(s).strides[1] = (uint64_t{1} << 40) - 16;
       Map(s).box[2] = 1;
     },
     "bytes 140737488355360"},
    {"Swizzle", [](Sample& s) { Map(s).swizzle = 48; }, "swizzle 48"},
    {"SwizzleOfTwoBits", [](Sample& s) { Map(s).swizzle = 96; }, "swizzle 96"},
    {"LineLongerThanItsSwizzle",
     [](Sample& s) {
       Map(s).box[0] = 16;
       Map(s).swizzle = 32;
     },
     "line, 64 is not within 16 to 32"},
    {"OddLine", [](Sample& s) { Map(s).box[0] = 3; }, "line, 12"},
    {"OddOffset", [](Sample& s) { Map(s).offset = 8; }, "offset 8"},
    {"OneRowTooMany", [](Sample& s) { Map(s).extents[1] = 5; }, "bytes 160 is not within 4 to 128"},
    {"BehindTheEnd", [](Sample& s) { Map(s).offset = 16; }, "bytes 128 is not within 4 to 112"},
    {"FarBehindTheEnd", [](Sample& s) { Map(s).offset = ~uint64_t{15}; }, "offset 18446744073709551600"},
};
INSTANTIATE_TEST_SUITE_P(All, MapRules, testing::ValuesIn(kRules), RuleName);

}  // namespace
}  // namespace rondo
