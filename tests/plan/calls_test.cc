// Custom ops in a plan: one broken plan for each rule of the verifier and of the checker, and the fields that
// a file keeps of them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/plan/broken.h"
#include "tests/plan/call_plan.h"
#include "tests/plan/round_trip.h"

namespace rondo {
namespace {

CustomAttribute& AttributeOf(Sample& s, uint32_t i) { return Edit(s.data.custom_ops[0].attributes, i); }

TEST(Calls, TheSampleIsVerifiedAndProven) {
  const Sample s = MakeCallSample();
  ExpectVerifiedAndProven(s.data);
}

TEST(Calls, AFileKeepsAllOfThem) {
  const Sample s = MakeCallSample();
  Arena arena;
  Result<PlanFile> read = RoundTrip(s, arena);
  ASSERT_TRUE(read.ok()) << read.status().message();
  const PlanData& d = read->data;
  ASSERT_EQ(d.custom_ops.size(), 3u);
  EXPECT_EQ(d.custom_ops[0].domain, "test");
  EXPECT_EQ(d.custom_ops[0].name, "Scale");
  EXPECT_EQ(d.custom_ops[0].library, "libtest.so");
  EXPECT_EQ(d.custom_ops[0].num_inputs, 2u);
  EXPECT_TRUE(d.custom_ops[0].arguments[1].absent);
  ASSERT_EQ(d.custom_ops[0].attributes.size(), 7u);
  EXPECT_EQ(d.custom_ops[0].attributes[0].ints[0], -3);
  EXPECT_EQ(d.custom_ops[0].attributes[1].floats[0], 2);
  EXPECT_EQ(d.custom_ops[0].attributes[2].texts[0], "first");
  EXPECT_EQ(d.custom_ops[0].attributes[5].texts[2], "c");
  EXPECT_EQ(d.custom_ops[0].attributes[6].data[2], 2);
  EXPECT_EQ(d.custom_ops[0].attributes[6].shape, Shape{2});
  EXPECT_EQ(d.custom_ops[1].arguments[0].mode, Mode::kReadWrite);
  EXPECT_EQ(d.custom_ops[1].arguments[2].alias, 0u);
  EXPECT_FALSE(d.custom_ops[2].graph_safe);
  EXPECT_EQ(d.custom_ops[2].reason, "it counts its calls");
  EXPECT_EQ(d.programs[0].steps[2].custom, 2u);
}

// The limit of the description's section is one of its own bytes, not of the tensors' that it describes.
TEST(Calls, AFileDescribesTensorsOfAnySize) {
  Sample s = MakeCallSample();
  ArgumentOf(s, 0, 0).shape = Shape{int64_t{1} << 40};
  Arena arena;
  Result<PlanFile> read = RoundTrip(s, arena);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->data.custom_ops[0].arguments[0].shape, Shape{int64_t{1} << 40});
}

class CallRules : public BrokenSample {};

TEST_P(CallRules, Broken) { VerifierRefuses(MakeCallSample()); }

const Broken kOpRules[] = {
    {"NoDomain", [](Sample& s) { CustomOf(s, 0).domain = ""; }, "no domain"},
    {"NoName", [](Sample& s) { CustomOf(s, 0).name = ""; }, "no name"},
    {"VersionZero", [](Sample& s) { CustomOf(s, 0).version = 0; }, "version 0"},
    {"UnsafeWithoutReason", [](Sample& s) { CustomOf(s, 2).reason = ""; }, "does not say why"},
    {"SafeWithReason", [](Sample& s) { CustomOf(s, 0).reason = "none"; }, "says why not"},
    {"NoOutputs", [](Sample& s) { CustomOf(s, 0).num_inputs = 3; }, "3 inputs among 3"},
    {"TooManyInputs", [](Sample& s) { CustomOf(s, 0).num_inputs = 65; }, "65 inputs"},
    {"TooManyOutputs", [](Sample& s) { CustomOf(s, 0).arguments = s.arena.New<CustomArgument>(100); },
     "among 100"},
    {"ModeUnknown", [](Sample& s) { ArgumentOf(s, 0, 0).mode = static_cast<Mode>(3); }, "input 0: mode 3"},
    {"DTypeUnknown", [](Sample& s) { ArgumentOf(s, 0, 0).dtype = static_cast<DType>(40); }, "dtype 40"},
    {"Rank", [](Sample& s) { ArgumentOf(s, 0, 0).shape.rank = 9; }, "rank 9"},
    {"NegativeExtent", [](Sample& s) { ArgumentOf(s, 0, 0).shape[0] = -4; }, "-4"},
    {"ShapeOverflows",
     [](Sample& s) {
       ArgumentOf(s, 0, 0).shape = Shape{int64_t{1} << 62, int64_t{1} << 62};
     },
     "more than"},
    {"WrittenInput", [](Sample& s) { ArgumentOf(s, 0, 0).mode = Mode::kWrite; }, "an input is read"},
    {"InputThatAliases", [](Sample& s) { ArgumentOf(s, 0, 0).alias = 0; }, "aliases nothing"},
    {"AbsentOutput", [](Sample& s) { ArgumentOf(s, 0, 2).absent = true; }, "left out"},
    {"AbsentAndChanged", [](Sample& s) { ArgumentOf(s, 0, 1).mode = Mode::kReadWrite; }, "left out"},
    {"ReadOutput", [](Sample& s) { ArgumentOf(s, 0, 2).mode = Mode::kRead; }, "names its input"},
    {"ChangedOutput", [](Sample& s) { ArgumentOf(s, 0, 2).mode = Mode::kReadWrite; },
     "output 0: an output is"},
    {"AliasRange", [](Sample& s) { ArgumentOf(s, 1, 2).alias = 2; }, "aliases input 2 of 2"},
    {"AliasOfAnAbsentInput",
     [](Sample& s) {
       ArgumentOf(s, 0, 2).alias = 1;
       ArgumentOf(s, 0, 2).mode = Mode::kRead;
     },
     "another type"},
    {"AliasOfAnotherType",
     [](Sample& s) {
       ArgumentOf(s, 1, 2).shape = Shape{2, 2};
     },
     "another type"},
    {"NewVersionOfAnUnchangedInput", [](Sample& s) { ArgumentOf(s, 1, 2).alias = 1; }, "not changed"},
    {"ChangedInputPassedThrough", [](Sample& s) { ArgumentOf(s, 1, 2).mode = Mode::kRead; }, "new version"},
    {"ChangedInputWithoutNewVersion", [](Sample& s) { ArgumentOf(s, 1, 2).alias = kNone; },
     "input 0 is aliased by 0"},
    {"TwoNewVersions",
     [](Sample& s) {
       const CustomArgument changed = s.data.custom_ops[1].arguments[0],
                            out = s.data.custom_ops[1].arguments[2];
       CustomOf(s, 1).num_inputs = 1;
       CustomOf(s, 1).arguments = List<CustomArgument>(s.arena, {changed, out, out});
     },
     "input 0 is aliased by 2"},
    {"AttributeWithoutName", [](Sample& s) { AttributeOf(s, 0).name = ""; }, "attribute 0: it has no name"},
    {"AttributeKind", [](Sample& s) { AttributeOf(s, 0).kind = static_cast<AttributeKind>(7); }, "kind 7"},
    {"IntOfTwo",
     [](Sample& s) {
       AttributeOf(s, 0).ints = List<int64_t>(s.arena, {1, 2});
     },
     "2 values"},
    {"FloatMissing", [](Sample& s) { AttributeOf(s, 1).floats = {}; }, "0 values"},
    {"StringWithInts", [](Sample& s) { AttributeOf(s, 2).ints = List<int64_t>(s.arena, {1}); }, "1 values"},
    {"TensorOfOtherBytes", [](Sample& s) { AttributeOf(s, 6).shape = Shape{3}; }, "needs 6"},
    {"TensorDType", [](Sample& s) { AttributeOf(s, 6).dtype = static_cast<DType>(kNumDTypes); }, "dtype 15"},
    {"DataOfAnInt", [](Sample& s) { AttributeOf(s, 0).data = List<uint8_t>(s.arena, {1}); }, "needs 0"},
};

const Broken kStepRules[] = {
    {"OpRange", [](Sample& s) { StepOf(s, 0).custom = 3; }, "custom op 3 of 3"},
    {"OpMissing", [](Sample& s) { StepOf(s, 0).custom = kNone; }, "custom op"},
    {"OpOfACopy", [](Sample& s) { StepOf(s, 4).custom = 0; }, "calls no custom op"},
    {"WithKernel", [](Sample& s) { StepOf(s, 0).kernel = 0; }, "neither kernel"},
    {"Bindings",
     [](Sample& s) { StepOf(s, 0).bindings = s.data.programs[0].steps[0].bindings.subspan(0, 2); },
     "2 bindings for the 3 arguments"},
    {"AbsentButBound", [](Sample& s) { Edit(StepOf(s, 0).bindings, 1).buffer = kCallX; },
     "left out, but bound"},
    {"PresentButUnbound", [](Sample& s) { Edit(StepOf(s, 0).bindings, 0).buffer = kNone; },
     "bound to buffer"},
    {"OutOfBounds", [](Sample& s) { ArgumentOf(s, 0, 0).shape = Shape{5}; }, "touches bytes [0, 20)"},
    {"PastTheEnd", [](Sample& s) { Edit(StepOf(s, 0).bindings, 0).offset = 4; }, "touches bytes [4, 20)"},
    {"Unaligned", [](Sample& s) { Edit(StepOf(s, 0).bindings, 0).offset = 2; }, "for accesses of 4"},
    {"NewVersionElsewhere", [](Sample& s) { Edit(StepOf(s, 1).bindings, 2).buffer = kCallA; },
     "bound elsewhere"},
    {"PassedThroughElsewhere", [](Sample& s) { Edit(StepOf(s, 2).bindings, 1).buffer = kCallX; },
     "bound elsewhere"},
    {"PassedThroughToABufferThatTakesOver", [](Sample& s) { Edit(StepOf(s, 2).bindings, 1).buffer = kCallB; },
     "bound elsewhere"},
    {"TakenOverAtAnotherPlace", [](Sample& s) { BufferOf(s, kCallB).offset = 0; }, "bound elsewhere"},
    {"UnsafeInAGraph",
     [](Sample& s) {
       Edit(s.data.programs[0].partitions, 0).num_steps = 3;
       Edit(s.data.programs[0].partitions, 1).first_step = 3;
       Edit(s.data.programs[0].partitions, 2).first_step = 4;
       Edit(s.data.programs[0].partitions, 2).num_steps = 1;
     },
     "no graph may contain"},
    {"UnsafeOnAnotherStream",
     [](Sample& s) {
       Edit(s.data.programs, 0).num_streams = 2;
       StepOf(s, 2).stream = 1;
     },
     "partition 1 of 1 steps holds step 2 on stream 1, whose custom op no graph may contain"},
};
INSTANTIATE_TEST_SUITE_P(Ops, CallRules, testing::ValuesIn(kOpRules), RuleName);
INSTANTIATE_TEST_SUITE_P(Steps, CallRules, testing::ValuesIn(kStepRules), RuleName);

// Plans that the verifier accepts and the checker refuses.
class CallProofs : public BrokenSample {};

TEST_P(CallProofs, Broken) { CheckerRefuses(MakeCallSample()); }

const Broken kProofRules[] = {
    {"WritesAnInput",
     [](Sample& s) {
       Edit(StepOf(s, 3).bindings, 0).buffer = kCallX;
       Edit(StepOf(s, 3).bindings, 2).buffer = kCallX;
     },
     "never to be written"},
    {"ReadsWhatNobodyWrote",
     [](Sample& s) {
       StepOf(s, 0).bindings = List<Binding>(s.arena, {{kCallX, 0}, {kNone, 0}, {kCallY, 0}});
       BufferOf(s, kCallY).first_step = 0;
       BufferOf(s, kCallA).first_step = 1;
     },
     "no step before it has written"},
    {"ChangesWhatAnotherInputReads", [](Sample& s) { Edit(StepOf(s, 1).bindings, 1).buffer = kCallTotal; },
     "not element by element"},
    {"OutputOverAnInput",
     [](Sample& s) {
       Edit(StepOf(s, 0).bindings, 0).buffer = kCallTotal;
       Edit(StepOf(s, 0).bindings, 2).buffer = kCallTotal;
       BufferOf(s, kCallA).first_step = 1;
     },
     "not element by element"},
    {"LifetimeLongerThanItsReaders", [](Sample& s) { BufferOf(s, kCallA).last_step = 4; },
     "lives from step 0 to 4"},
    {"LowerBound", [](Sample& s) { ProgramOf(s, 0).arena_lower_bound = 16; }, "lower bound"},
};
INSTANTIATE_TEST_SUITE_P(Proofs, CallProofs, testing::ValuesIn(kProofRules), RuleName);

TEST(Calls, ANewVersionMayBeTheSameBuffer) {
  Sample s = MakeCallSample();
  Edit(StepOf(s, 3).bindings, 2).buffer = kCallA;
  Edit(StepOf(s, 4).bindings, 0).buffer = kCallA;
  BufferOf(s, kCallA).last_step = 4;
  BufferOf(s, kCallB).first_step = 1;
  BufferOf(s, kCallB).last_step = 0;
  ExpectVerifiedAndProven(s.data);
}

}  // namespace
}  // namespace rondo
