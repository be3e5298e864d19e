// Plans of random programs on several streams: the checker accepts them, and they give the same results in
// every order that their streams and events allow.
#include <gtest/gtest.h>

#include <vector>

#include "compiler/codegen/emit_plan.h"
#include "formats/plan/check/checker.h"
#include "formats/plan/verifier.h"
#include "runtime/verify/lifecycle_verifier.h"
#include "runtime/verify/unchecked_plan.h"
#include "tests/defects/effect.h"
#include "tests/streams/random_program.h"

namespace rondo {
namespace {

using defects::EffectRunner;
using defects::Results;

constexpr RandomShape kShapes[] = {{2, 1, 30},       {3, 1, 40},       {4, 1, 60, true}, {2, 2, 40},
                                   {3, 2, 50, true}, {4, 3, 60, true}, {1, 2, 40, true}};

EmittedPlan Emit(const LoweredProgram& program, uint32_t devices,
                 PlannedFor memory = PlannedFor::kAnyTiming) {
  auto emitted = EmitPlan(Planned(program, devices, memory), {}, nullptr);
  EXPECT_TRUE(emitted.ok()) << emitted.status().message();
  return emitted.Take();
}

std::vector<Results> AllWays(const PlanData& data, EffectRunner* runner) {
  Result<Plan> plan = UncheckedPlan::FromData(data, {});
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  Result<std::vector<Results>> results = runner->Run(*plan);
  EXPECT_TRUE(results.ok()) << results.status().message();
  return results.ok() ? results.Take() : std::vector<Results>();
}

TEST(Plans, AreProvenAndComputeWhatOneStreamDoesInEveryOrder) {
  for (const RandomShape& shape : kShapes) {
    EffectRunner runner(shape.devices);
    for (uint64_t seed = 0; seed < 12; ++seed) {
      const LoweredProgram program = RandomProgram(seed, shape);
      LoweredProgram in_order = program;
      for (LoweredOp& op : in_order.ops) op.stream = 0;
      const EmittedPlan emitted = Emit(program, shape.devices), expected = Emit(in_order, shape.devices);
      for (const EmittedPlan* plan : {&emitted, &expected}) {
        Status proven = VerifyPlan(plan->plan);
        if (proven.ok()) proven = CheckPlan(plan->plan);
        ASSERT_TRUE(proven.ok()) << proven.message() << ", seed " << seed;
      }
      EXPECT_EQ(emitted.plan.programs[0].num_streams, shape.streams);
      const std::vector<Results> want = AllWays(expected.plan, &runner);
      for (const Results& got : AllWays(emitted.plan, &runner)) {
        EXPECT_EQ(got.error, "");
        EXPECT_EQ(got, want[0]) << shape.streams << " streams, seed " << seed;
      }
    }
  }
}

TEST(Plans, PassTheLifecycleVerifier) {
  for (const RandomShape& shape : kShapes) {
    EffectRunner runner(shape.devices);
    for (uint64_t seed = 20; seed < 22; ++seed) {
      const EmittedPlan emitted = Emit(RandomProgram(seed, shape), shape.devices);
      Result<Plan> plan = Plan::FromData(emitted.plan, {});
      ASSERT_TRUE(plan.ok()) << plan.status().message();
      VerifyOptions options;
      options.reopenings = 1;
      const Result<VerifyReport> report = VerifyLifecycle(*plan, runner.driver(), options);
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_TRUE(report->ok()) << report->findings[0].Text();
    }
  }
}

// Checks that the tests can fail: memory is planned as if steps ran in the list's order, for programs on
// several streams. The checker refuses every plan that can change a result.
TEST(Plans, MemoryForTheOrderOfTheListIsRefusedAndGoesWrong) {
  int refused = 0, wrong = 0, kept = 0;
  for (const RandomShape& shape : kShapes) {
    if (shape.streams == 1) continue;
    EffectRunner runner(shape.devices);
    for (uint64_t seed = 0; seed < 6; ++seed) {
      const EmittedPlan emitted =
          Emit(RandomProgram(seed, shape), shape.devices, PlannedFor::kOrderOfTheList);
      ASSERT_TRUE(VerifyPlan(emitted.plan).ok());
      const bool accepted = CheckPlan(emitted.plan).ok();
      const std::vector<Results> results = AllWays(emitted.plan, &runner);
      bool same = true;
      for (const Results& one : results) same &= one == results[0];
      ++(accepted ? kept : refused);
      wrong += !same;
      EXPECT_TRUE(same || !accepted) << shape.streams << " streams, seed " << seed;
    }
  }
  EXPECT_GT(refused, 25);
  EXPECT_GT(wrong, 15);
  std::printf("%d refused, %d of them computed something else in some order; %d had nothing to refuse\n",
              refused, wrong, kept);
}

}  // namespace
}  // namespace rondo
