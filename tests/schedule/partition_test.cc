// Partitions: as few as the steps allow, each with the reason why it ended.
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
  const char* named;  // named in the detail
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

TEST(Partition, ABreakInALoopIsBeforeTheLoop) {
  HandMade made;
  const int x = made.Input("x", 8);
  int last = x;
  for (int i = 0; i < 6; ++i) {
    const int next = i == 5 ? made.Output("y", 8) : made.Temporary(8);
    made.Sum({last}, next, "node" + std::to_string(i));
    last = next;
  }
  made.program().loops = {3, 4};
  for (size_t i : {1, 2}) made.program().ops[i].loop = 0;
  for (size_t i : {3, 4}) made.program().ops[i].loop = 1;
  const struct {
    const char* node;
    size_t step;
  } kCases[] = {{"node0", 0}, {"node1", 1}, {"node2", 1}, {"node3", 3}, {"node4", 3}, {"node5", 5}};
  for (const auto& c : kCases) {
    std::vector<std::string> found;
    const auto steps = SeamSteps(made.program(), {c.node}, &found);
    EXPECT_EQ(found, std::vector<std::string>{c.node});
    for (size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(steps[i].user_break,
                i == c.step ? std::string("a break was asked for before node \"") + c.node + "\"" : "")
          << c.node << ", step " << i;
    }
  }
}

// Two collectives in flight and a break. The collective that the break would cut waits at once; the other is
// unchanged.
TEST(Partition, ACollectiveIsNeverCut) {
  HandMade made;
  const int x = made.Input("x", 8), a = made.Temporary(8), b = made.Temporary(8), c = made.Temporary(8);
  made.Sum({x}, a, "first");                                   // 0
  const int one = made.Start(CollectiveOp::kAllReduce, a, b);  // 1
  made.Sum({x}, c, "between");                                 // 2
  made.Sum({x, c}, made.Output("w", 8), "break");              // 3
  made.Wait(one);                                              // 4
  const int d = made.Temporary(8);
  const int two = made.Start(CollectiveOp::kAllReduce, c, d);  // 5
  made.Sum({b}, made.Output("y", 8), "beside");                // 6
  made.Wait(two);                                              // 7
  made.Sum({d}, made.Output("z", 8), "last");                  // 8
  const auto kinds = [](const LoweredProgram& program) {
    std::string text;
    for (const LoweredOp& op : program.ops) {
      const bool start = op.kind == LoweredKind::kCollectiveStart,
                 wait = op.kind == LoweredKind::kCollectiveWait;
      text += (start  ? "start"
               : wait ? "wait"
                      : "") +
              (start || wait ? std::to_string(op.collective) : op.sources.front()) + "; ";
    }
    return text;
  };
  const LoweredProgram given = made.program();
  for (const char* node : {"break", "between"}) {
    LoweredProgram program = given;
    std::vector<std::string> found;
    EXPECT_TRUE(CloseCollectives(SeamSteps(program, {node}, &found), &program));
    EXPECT_EQ(
        kinds(program),
        "Sum \"first\"; start0; wait0; Sum \"between\"; Sum \"break\"; start1; Sum \"beside\"; wait1; Sum "
        "\"last\"; ");
    for (size_t i = 0; i < program.ops.size(); ++i) {
      for (int dep : program.ops[i].deps) EXPECT_LT(dep, static_cast<int>(i));
    }
    EXPECT_FALSE(CloseCollectives(SeamSteps(program, {node}, &found), &program));  // nothing more to move
  }
  for (const char* node : {"first", "last"}) {
    LoweredProgram program = given;
    std::vector<std::string> found;
    EXPECT_FALSE(CloseCollectives(SeamSteps(program, {node}, &found), &program));
    EXPECT_EQ(kinds(program), kinds(given));
  }
  for (const size_t beside : {0, 8}) {  // just before the first start, and just after the last wait
    LoweredProgram program = given;
    program.ops[beside].annotations["graph"] = "off";
    std::vector<std::string> found;
    EXPECT_FALSE(CloseCollectives(SeamSteps(program, {}, &found), &program));
    EXPECT_EQ(kinds(program), kinds(given));
  }
}

TEST(Partition, ASourceIsOfTheNodeThatItsQuotesHold) {
  EXPECT_TRUE(IsSourceNode("MatMul \"a.b\"", "a.b"));
  EXPECT_TRUE(IsSourceNode("\"a.b\"", "a.b"));
  EXPECT_FALSE(IsSourceNode("MatMul \"a.b\"", "b"));
  EXPECT_FALSE(IsSourceNode("MatMul \"a.b\"", "a"));
  EXPECT_FALSE(IsSourceNode("MatMul \"x \"a.b\"\"", "a.b"));
  EXPECT_FALSE(IsSourceNode("x\"a\"", "a"));
  EXPECT_FALSE(IsSourceNode("\"", ""));
}

}  // namespace
}  // namespace rondo
