// Partitions: as few as the steps allow, each with the reason it ended.
#include "compiler/schedule/partition.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compile/hand_made.h"

namespace rondo {
namespace {

SeamStep Plain(uint32_t device = 0) {
  SeamStep step;
  step.device = device;
  step.source = "Add \"plain\"";
  return step;
}
SeamStep Unsafe() {
  SeamStep step = Plain();
  step.source = "Custom \"unsafe\"";
  step.unsafe = "it is a custom op";
  return step;
}
SeamStep UserBreak() {
  SeamStep step = Plain();
  step.source = "MatMul \"user\"";
  step.user_break = "a break was asked for";
  return step;
}
SeamStep Collective() {
  SeamStep step = Plain();
  step.source = "AllReduce \"sum\"";
  step.sync_point = true;
  return step;
}

struct Expected {
  uint32_t steps;
  BreakReason reason;
  const char* named;  // in the detail
};
struct Case {
  const char* name;
  std::vector<SeamStep> steps;
  std::vector<Expected> partitions;
};

TEST(Partition, EachCutHasItsReason) {
  const Case kCases[] = {
      {"nothing", {}, {}},
      {"all in one", {Plain(), Plain(), Plain()}, {{3, BreakReason::kProgramEnd, "ends"}}},
      {"a break at the very start cuts nothing",
       {UserBreak(), Plain()},
       {{2, BreakReason::kProgramEnd, "ends"}}},
      {"a user's break",
       {Plain(), UserBreak(), Plain()},
       {{1, BreakReason::kUserBreak, "MatMul \"user\""}, {2, BreakReason::kProgramEnd, "ends"}}},
      {"another device",
       {Plain(0), Plain(0), Plain(1)},
       {{2, BreakReason::kDeviceChange, "device 1"}, {1, BreakReason::kProgramEnd, "ends"}}},
      {"an unsafe step stands alone",
       {Plain(), Unsafe(), Plain()},
       {{1, BreakReason::kUnsafeStep, "Custom \"unsafe\""},
        {1, BreakReason::kUnsafeStep, "Custom \"unsafe\""},
        {1, BreakReason::kProgramEnd, "ends"}}},
      {"a collective between partitions",
       {Plain(), Collective(), Plain()},
       {{1, BreakReason::kSyncPoint, "AllReduce \"sum\""},
        {1, BreakReason::kSyncPoint, "AllReduce \"sum\""},
        {1, BreakReason::kProgramEnd, "ends"}}},
  };
  for (const Case& c : kCases) {
    const auto partitions = PartitionSteps(c.steps);
    ASSERT_EQ(partitions.size(), c.partitions.size()) << c.name;
    uint32_t next = 0;
    for (size_t i = 0; i < partitions.size(); ++i) {
      EXPECT_EQ(partitions[i].first_step, next) << c.name;
      EXPECT_EQ(partitions[i].num_steps, c.partitions[i].steps) << c.name;
      EXPECT_EQ(partitions[i].reason, c.partitions[i].reason) << c.name;
      EXPECT_NE(partitions[i].detail.find(c.partitions[i].named), std::string::npos) << partitions[i].detail;
      next += partitions[i].num_steps;
    }
    EXPECT_EQ(next, c.steps.size()) << c.name;
  }
}

TEST(Partition, BreaksBeforeTheFirstStepOfANamedNode) {
  HandMade made;
  const int x = made.Input("x", 16), a = made.Temporary(16), b = made.Temporary(16);
  made.Sum({x}, a, "first");
  made.Sum({a}, b, "second");
  made.program().ops.back().sources.push_back("Relu \"fused.in\"");
  made.Sum({b}, made.Output("y", 16), "third");
  std::vector<std::string> found;
  const auto steps = SeamSteps(made.program(), {"fused.in", "in", "third", "nowhere"}, &found);
  EXPECT_EQ(found, (std::vector<std::string>{"fused.in", "third"}));
  const auto partitions = PartitionSteps(steps);
  ASSERT_EQ(partitions.size(), 3u);
  EXPECT_EQ(partitions[0].reason, BreakReason::kUserBreak);
  EXPECT_NE(partitions[0].detail.find("fused.in"), std::string::npos) << partitions[0].detail;
}

TEST(Partition, AnOpAnnotatedGraphOffIsUnsafe) {
  HandMade made;
  const int x = made.Input("x", 16), a = made.Temporary(16);
  made.Sum({x}, a);
  made.Sum({a}, made.Output("y", 16));
  made.program().ops[1].annotations["graph"] = "off";
  std::vector<std::string> found;
  const auto partitions = PartitionSteps(SeamSteps(made.program(), {}, &found));
  ASSERT_EQ(partitions.size(), 2u);
  EXPECT_EQ(partitions[0].reason, BreakReason::kUnsafeStep);
}

}  // namespace
}  // namespace rondo
