// The trace of a GPU's plan: one launch for each partition with the reason why it ends, and a time for each
// step.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/run_timer.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/runtime/tiny_plan.h"
#include "tools/rondo/timings.h"

namespace rondo {
namespace {

TEST(CudaTrace, HasEachPartitionWithItsReasonAndEachStepWithItsTime) {
  fake_cuda::SetMachine({});
  TinyPlan tiny(true);  // two steps, each a partition
  FakeGpu gpu(&tiny.data);
  FakeSession s;
  const Status opened = s.Open(tiny.data, tiny.weight_bytes());
  ASSERT_TRUE(opened.ok()) << opened.message();
  const float x[4] = {1, 2, 3, 4};
  const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x, 16}};
  std::vector<tools::TracedReplay> replays;
  for (TimerDetail detail : {TimerDetail::kPartitions, TimerDetail::kSteps}) {
    RunTimer timer = RunTimer::Create(s.sessions[0], TinyPlan::kAdd, detail).Take();
    RunOptions options;
    options.timer = &timer;
    ASSERT_TRUE(s.sessions[0].Run(TinyPlan::kAdd, inputs, {}, options).ok());
    replays.push_back({TinyPlan::kAdd, detail, tools::ReadAll(timer).Take()});
  }
  const Program& program = tiny.data.programs[TinyPlan::kAdd];
  ASSERT_EQ(program.partitions.size(), 2u);
  for (const tools::TracedReplay& replay : replays) {
    const nlohmann::json trace = nlohmann::json::parse(tools::TraceJson(tiny.data, {replay}), nullptr, false);
    ASSERT_TRUE(trace.is_object());
    size_t partitions = 0, steps = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      EXPECT_GE(event["dur"].get<double>(), 0);
      if (event["cat"] == "step") {
        EXPECT_EQ(event["args"]["step"], steps++);
        continue;
      }
      const Partition& partition = program.partitions[partitions++];
      EXPECT_EQ(event["args"]["first_step"], partition.first_step);
      EXPECT_EQ(event["args"]["ends_because_of"], Name(partition.reason));
      EXPECT_EQ(event["args"]["reason"], std::string(partition.detail));
    }
    EXPECT_EQ(partitions, 2u);
    EXPECT_EQ(steps, replay.detail == TimerDetail::kSteps ? program.steps.size() : 0u);
  }
  s.Close();
}

// Two collectives in flight at once. Each lists what runs between its start and its wait on its device.
TEST(Traces, HaveCollectivesWithWhatRunsBeside) {
  std::vector<Step> steps(8);
  const std::pair<StepKind, uint32_t> order[] = {
      {StepKind::kCollectiveStart, 0}, {StepKind::kLaunch, kNone},     {StepKind::kCollectiveStart, 1},
      {StepKind::kLaunch, kNone},      {StepKind::kCollectiveWait, 0}, {StepKind::kCollectiveWait, 1},
      {StepKind::kLaunch, kNone},      {StepKind::kCollectiveStart, 0}};
  tools::TracedReplay replay{0, TimerDetail::kSteps, {}};
  double now = 100;
  for (uint32_t s = 0; s < steps.size(); ++s) {
    steps[s].kind = order[s].first;
    steps[s].sync_point = order[s].second;
    steps[s].device = s == 7 ? 1 : 0;  // device 1 has no wait here
    replay.intervals.push_back({s, steps[s].device, now, 1.0 + s});
    now += 1.0 + s;
  }
  const SyncPoint points[2] = {};
  Program program;
  program.steps = steps;
  program.sync_points = points;
  PlanData plan;
  plan.programs = {&program, 1};
  const std::vector<tools::TracedCollective> found = tools::CollectivesOf(plan, replay);
  ASSERT_EQ(found.size(), 2u);
  const double begin[] = {100, 103}, end[] = {115, 121}, beside[] = {2 + 4, 4}, waited[] = {5, 6};
  for (uint32_t c = 0; c < 2; ++c) {
    EXPECT_EQ(found[c].sync_point, c);
    EXPECT_EQ(found[c].begin, begin[c]);
    EXPECT_EQ(found[c].end, end[c]);
    EXPECT_EQ(found[c].beside, beside[c]);
    EXPECT_EQ(found[c].waited, waited[c]);
  }
  // The two together last from 100 to 121; the launches at 101 and 106 overlap them.
  const std::vector<tools::DeviceOverlap> of = tools::OverlapOf(plan, replay);
  ASSERT_EQ(of.size(), 1u);
  EXPECT_EQ(of[0].collectives, 2u);
  EXPECT_EQ(of[0].in_flight, 21);
  EXPECT_EQ(of[0].beside, 2 + 4);
  EXPECT_EQ(of[0].waited, 5 + 6);
}

}  // namespace
}  // namespace rondo
