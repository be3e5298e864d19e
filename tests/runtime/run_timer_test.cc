// Times of runs, from a driver's timed events; a driver without them reports that.
#include "runtime/run_timer.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/runtime/drivers.h"
#include "tests/runtime/open_tiny.h"

namespace rondo {
namespace {

class RunTimerTest : public testing::Test {
 protected:
  void Open(const char* driver, bool split) {
    session_ = Session();
    runtime_ = Runtime();
    driver_ = MakeDriver(driver);
    ASSERT_NE(driver_, nullptr);
    tiny_ = std::make_unique<TinyPlan>(split);
    Plan plan;
    const Status opened = OpenTiny(*tiny_, driver_.get(), &plan, &runtime_);
    ASSERT_TRUE(opened.ok()) << opened.message();
    session_ = MakeSession(runtime_, plan);
  }
  // Runs `add`, which adds 10, 40, 90, 160 to the state, and returns the state.
  std::vector<float> RunAdd(const RunTimer* timer, bool stepwise = false) {
    const float x[4] = {10, 20, 30, 40};
    std::vector<float> total(4);
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x, 16}};
    const Output outputs[] = {{"total_out", kNone, DType::kF32, total.data(), 16}};
    RunOptions options;
    options.timer = timer;
    options.stepwise = stepwise;
    status_ = session_.Run(TinyPlan::kAdd, inputs, outputs, options);
    return total;
  }

  DriverHandle driver_{nullptr, nullptr};
  std::unique_ptr<TinyPlan> tiny_;
  Runtime runtime_;
  Session session_;
  Status status_;
};

TEST_F(RunTimerTest, ADriverWithoutTimedEventsSaysSo) {
  Open("fake", false);
  Result<RunTimer> timer = RunTimer::Create(session_, TinyPlan::kAdd, TimerDetail::kPartitions);
  ASSERT_FALSE(timer.ok());
  EXPECT_EQ(timer.status().code(), Code::kUnsupported);
  EXPECT_TRUE(session_.status().ok());
}

#ifdef RONDO_HAVE_HOST
TEST_F(RunTimerTest, IntervalsFollowOneAnotherAndResultsStayTheSame) {
  for (bool split : {false, true}) {
    Open("host", split);
    const std::vector<float> once = {10, 40, 90, 160}, twice = {20, 80, 180, 320};
    Result<RunTimer> partitions = RunTimer::Create(session_, TinyPlan::kAdd, TimerDetail::kPartitions);
    Result<RunTimer> steps = RunTimer::Create(session_, TinyPlan::kAdd, TimerDetail::kSteps);
    ASSERT_TRUE(partitions.ok() && steps.ok());
    EXPECT_EQ(partitions->size(), split ? 2u : 1u);
    ASSERT_EQ(steps->size(), 2u);
    EXPECT_EQ(RunAdd(&*partitions), once) << status_.message();
    EXPECT_EQ(RunAdd(&*steps), twice) << status_.message();
    double end = 0;
    for (uint32_t i = 0; i < steps->size(); ++i) {
      Result<TimedInterval> interval = steps->Read(i);
      ASSERT_TRUE(interval.ok()) << interval.status().message();
      EXPECT_EQ(interval->index, i);
      EXPECT_GE(interval->begin, end - 1e-6);
      EXPECT_GE(interval->duration, 0);
      end = interval->begin + interval->duration;
    }
    EXPECT_FALSE(steps->Read(2).ok());
  }
}

TEST_F(RunTimerTest, ATimerOfAnotherProgramOrAStepwiseRunIsAMistake) {
  Open("host", false);
  Result<RunTimer> other = RunTimer::Create(session_, TinyPlan::kPeek, TimerDetail::kSteps);
  Result<RunTimer> own = RunTimer::Create(session_, TinyPlan::kAdd, TimerDetail::kSteps);
  ASSERT_TRUE(other.ok() && own.ok());
  RunAdd(&*other);
  EXPECT_EQ(status_.code(), Code::kInvalidArgument);
  RunAdd(&*own, true);
  EXPECT_EQ(status_.code(), Code::kInvalidArgument);
  RunAdd(&*own);
  EXPECT_TRUE(status_.ok()) << status_.message();
}
#endif

}  // namespace
}  // namespace rondo
