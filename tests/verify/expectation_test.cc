// Expectations of a plan's memory that hold or do not hold, and their messages.
#include "runtime/verify/expectation.h"

#include "runtime/verify/value_names.h"
#include "tests/plan/loop_plan.h"
#include "tests/verify/chain.h"

namespace rondo {
namespace {

using Kind = ExpectationKind;

// The chain with `d` in the memory of a, which is dead by then, and `e` in place over `d`:
//   6 c -> d    7 -d -> e    8 e -> out
class Expectations : public testing::Test {
 protected:
  Expectations() {
    d_ = chain_.AddBuffer("d", kTemp, 64, Chain::kA);
    e_ = chain_.AddBuffer("e", kTemp, 64, Chain::kA, d_);
    chain_.Copy(chain_.c, d_);
    chain_.Launch(chain_.AddKernel(Elementwise(chain_.arena), 2), {{d_, 0}, {e_, 0}});
    chain_.Copy(e_, Maker::kOut);
    plan_ = chain_.MakePlan();
    EXPECT_TRUE(CheckPlan(plan_).ok()) << CheckPlan(plan_).message();
  }
  std::string Of(Kind kind, const std::string& value, const std::string& other = "") const {
    return Mismatch(plan_, {kind, value, other, "", 0});
  }
  std::string AtMost(Kind kind, uint64_t bytes) const { return Mismatch(plan_, {kind, "", "", "", bytes}); }

  Chain chain_;
  uint32_t d_ = 0, e_ = 0;
  PlanData plan_;
};

TEST_F(Expectations, ReusedMemoryIsWhatAnotherHadBefore) {
  EXPECT_EQ(Of(Kind::kReusesMemory, "d", "a"), "");
  EXPECT_EQ(Of(Kind::kReusesMemory, "e", "d"), "");  // in place
  EXPECT_FINDS(Of(Kind::kReusesMemory, "a", "d"), ": it is \"d\" that comes later");
  EXPECT_FINDS(Of(Kind::kReusesMemory, "b", "a"),
               "program \"p\": expected \"b\" in memory that \"a\" had before it; found buffer 3 \"b\" of "
               "Copy \"node_1\" "
               "(bytes 1280 to 1535 of the arena of device 0, steps 1 to 4) and buffer 2 \"a\" of Copy "
               "\"node_0\" (bytes "
               "768 to 1023 of the arena of device 0, steps 0 to 1), which have no byte in common; in the "
               "bytes of \"b\" "
               "lies nothing else with a name");
}

TEST_F(Expectations, SharedMemoryIsInCommon) {
  EXPECT_EQ(Of(Kind::kSharesMemory, "a", "e"), "");
  EXPECT_FINDS(Of(Kind::kSharesMemory, "a", "c"), "which have no byte in common");
}

TEST_F(Expectations, AValueDiesAfterTheNodeThatUsesItLast) {
  EXPECT_EQ(Of(Kind::kDiesAfter, "b", "node_4"), "");
  EXPECT_EQ(Of(Kind::kDiesAfter, "b", "Copy \"node_4\""), "");
  EXPECT_FINDS(
      Of(Kind::kDiesAfter, "b", "node_2"),
      "expected \"b\" to die after node \"node_2\", in step 2 (Copy \"node_2\"); found buffer 3 \"b\" of "
      "Copy "
      "\"node_1\" (bytes 1280 to 1535 of the arena of device 0, steps 1 to 4), whose last is step 4 (Copy "
      "\"node_4\")");
  EXPECT_FINDS(Of(Kind::kDiesAfter, "out", "node_5"), "an output: it lives until the run has ended");
  EXPECT_FINDS(Of(Kind::kDiesAfter, "s", "node_2"), "which is state and outlives every run");
}

TEST_F(Expectations, UpdatedInPlaceIsTakenOverOrWrittenWhereItLies) {
  EXPECT_EQ(Of(Kind::kUpdatedInPlace, "d"), "");
  EXPECT_FINDS(Of(Kind::kUpdatedInPlace, "a"), "whose memory no other value takes over in place");
  EXPECT_FINDS(Of(Kind::kUpdatedInPlace, "w"), "a constant, which no step writes");
  EXPECT_FINDS(Of(Kind::kUpdatedInPlace, "s"),
               "all of which step 2 (Copy \"node_2\") copies from another place");
  chain_.steps[2].kernel = chain_.AddKernel(CopyKernel(chain_.arena, "", 32, 0, 0));  // copies only half
  plan_ = chain_.MakePlan();
  EXPECT_EQ(Of(Kind::kUpdatedInPlace, "s"), "");
}

TEST_F(Expectations, CopiesAndPeakAreCounted) {
  EXPECT_EQ(CopiedBytes(plan_, 0), 8u * 256);  // not step 7, which computes
  EXPECT_EQ(AtMost(Kind::kCopiesAtMost, 8 * 256), "");
  EXPECT_FINDS(AtMost(Kind::kCopiesAtMost, 8 * 256 - 1),
               "expected at most 2047 bytes copied by a run; found 2048, most of them by step 8 (Copy "
               "\"node_8\"): 256");
  EXPECT_EQ(AtMost(Kind::kCopiesAtMost, 0).find("()"), std::string::npos)
      << "reasons stand where there are any";
  EXPECT_EQ(AtMost(Kind::kPeakAtMost, 256 + 4096 + 1024), "");
  EXPECT_FINDS(AtMost(Kind::kPeakAtMost, 5375),
               "found 5376: device 0 has 256 of weights, 4096 of arena, 1024 of state");
  const Sample loop = MakeLoopSample();
  EXPECT_GE(CopiedBytes(loop.data, 0), 2 * kLoopRounds * 16) << "rounds count";
}

TEST_F(Expectations, AnUnknownNameIsToldTheNearest) {
  const uint32_t last = static_cast<uint32_t>(plan_.buffers.size() - 1);
  const_cast<Buffer&>(plan_.buffers[last]).name = "attention_scores";
  EXPECT_EQ(Of(Kind::kUpdatedInPlace, "atention_scores"),
            "the plan has no value called \"atention_scores\"; nearest: \"attention_scores\"");
  EXPECT_EQ(Of(Kind::kDiesAfter, "b", "node_44"),
            "the plan has no node called \"node_44\"; nearest: \"node_4\", \"node_0\", \"node_1\"");
  EXPECT_EQ(Of(Kind::kUpdatedInPlace, "something else"), "the plan has no value called \"something else\"");
  EXPECT_EQ(Mismatch(plan_, {Kind::kPeakAtMost, "", "", "q", 0}),
            "the plan has no program called \"q\"; nearest: \"p\"");
}

TEST_F(Expectations, AValueInNoMemoryIsSaidToBeInItsKernel) {
  const std::string_view sources[] = {plan_.sources[0], plan_.sources[1],
                                      "value \"inner\" of Copy \"node_1\"",
                                      "value \"shape\" of Shape \"gone\""};
  plan_.sources = sources;
  EXPECT_EQ(
      Of(Kind::kUpdatedInPlace, "inner"),
      "value \"inner\" of Copy \"node_1\" lives inside kernel k1 (step 1 of program \"p\"), in no memory");
  EXPECT_EQ(Of(Kind::kUpdatedInPlace, "shape"),
            "value \"shape\" of Shape \"gone\" is in no memory: it was folded into a constant, a view or the "
            "nodes that "
            "use it, or nothing needs it");
  EXPECT_FINDS(Of(Kind::kDiesAfter, "b", "gone"), "node \"gone\" is in no step");
}

TEST_F(Expectations, WhatHoldsIsWrittenDown) {
  const std::vector<MemoryExpectation> all = ExpectationsOf(plan_);
  EXPECT_GE(all.size(), 6u);
  for (const MemoryExpectation& one : all) EXPECT_EQ(Mismatch(plan_, one), "");
}

TEST(Names, NearIsNotFarther) {
  EXPECT_EQ(NearestNames("lenght", {"length", "width"}), "\"length\"");
  EXPECT_EQ(NearestNames("x", {"a_long_name"}), "");
  EXPECT_EQ(NearestNames("", {"a", ""}), "\"a\"");
}

TEST(Names, LabelsAreTakenApart) {
  const std::vector<std::string_view> labels = LabelsOf("MatMul \"a;b\"; Add \"c\"");
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(NodeOfLabel(labels[0]), "a;b");
  EXPECT_EQ(NodeOfLabel(labels[1]), "c");
  EXPECT_TRUE(LabelsOf("").empty());
  EXPECT_EQ(NodeOfLabel("no quotes"), "no quotes");
}

}  // namespace
}  // namespace rondo
