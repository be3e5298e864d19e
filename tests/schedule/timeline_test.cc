// The time of compute beside a collective.
#include "formats/plan/timeline.h"

#include <gtest/gtest.h>

namespace rondo {
namespace {

// A collective of 10 us, `time` us of compute after its start, and its wait.
TimedSteps Beside(double time, double taken) {
  TimedSteps steps;
  steps.steps = {{TimedKind::kStart, 0, 0, 10, {}},
                 {TimedKind::kCompute, 0, -1, time, {}},
                 {TimedKind::kWait, 0, 0, 0, {}}};
  steps.collectives = 1;
  steps.taken = taken;
  return steps;
}

TEST(Timeline, ACollectiveTakesItsPartOfTheDeviceFromCompute) {
  EXPECT_DOUBLE_EQ(Simulate(Beside(20, 0), {0, 1, 2}).end, 20);
  EXPECT_DOUBLE_EQ(Simulate(Beside(20, 0.75), {0, 1, 2}).end, 27.5);  // part runs after the collective
  EXPECT_DOUBLE_EQ(Simulate(Beside(2, 0.75), {0, 1, 2}, {}, true).ends[1],
                   8);  // all of it runs beside the collective
}

TEST(Timeline, ComputeIsLongerByEachCollectiveThatItMeets) {
  TimedSteps steps = Beside(20, 0.5);
  steps.steps.insert(steps.steps.begin(), {TimedKind::kStart, 0, 1, 10, {}});
  steps.collectives = 2;
  steps.steps.push_back({TimedKind::kWait, 0, 1, 0, {}});
  EXPECT_DOUBLE_EQ(Simulate(steps, {0, 1, 2, 3, 4}).end, 30);  // 5 + 5 of 20 us run beside the collectives
}

}  // namespace
}  // namespace rondo
