// Loops of steps: the results of runs, from graphs and step by step, and the timers' reports.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/run_timer.h"
#include "runtime/session.h"
#include "tests/plan/loop_plan.h"
#include "tests/runtime/drivers.h"

namespace rondo {
namespace {

#ifdef RONDO_HAVE_HOST
class LoopsOnHost : public testing::Test {
 protected:
  LoopsOnHost() : sample_(MakeLoopSample()), driver_(MakeDriver("host")) {
    Result<Plan> plan = Plan::FromData(sample_.data, {});
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    Result<Runtime> runtime = Runtime::Create(driver_.get());
    EXPECT_TRUE(runtime.ok());
    runtime_ = runtime.Take();
    Result<Session> session = Session::Create(runtime_, *plan);
    EXPECT_TRUE(session.ok()) << session.status().message();
    session_ = session.Take();
  }

  // Expects that a run of the loop gives the right numbers. `first` varies the input.
  void Expect(float first, RunOptions options = {}, MemoryKind memory = MemoryKind::kHost) {
    alignas(64) float x[kLoopRounds * 4], start[4], y[kLoopRounds * 4] = {}, last[4] = {}, h[4];
    for (int i = 0; i < 4; ++i) start[i] = h[i] = first * static_cast<float>(i);
    for (size_t i = 0; i < kLoopRounds * 4; ++i) x[i] = first + static_cast<float>(i % 7);
    const Input inputs[] = {{"x", kNone, DType::kF32, {kLoopRounds, 4}, x, sizeof(x), memory},
                            {"start", kNone, DType::kF32, {1, 4}, start, sizeof(start), memory}};
    const Output outputs[] = {{"y", kNone, DType::kF32, y, sizeof(y), memory},
                              {"last", kNone, DType::kF32, last, sizeof(last), memory}};
    const Status run = session_.Run(0, inputs, outputs, options);
    ASSERT_TRUE(run.ok()) << run.message();
    for (size_t r = 0; r < kLoopRounds; ++r) {
      for (size_t i = 0; i < 4; ++i) {
        h[i] = 2 * (x[4 * r + i] + h[i]);
        EXPECT_EQ(y[4 * (kLoopRounds - 1 - r) + i], h[i]) << "round " << r << ", element " << i;
      }
    }
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(last[i], h[i]);
  }

  Sample sample_;
  DriverHandle driver_;
  Runtime runtime_;
  Session session_;
};

TEST_F(LoopsOnHost, EveryRoundSeesTheOneBefore) {
  RunOptions stepwise;
  stepwise.stepwise = true;
  for (float first : {1.0f, -2.5f, 3.0f}) {
    Expect(first);
    Expect(first, stepwise);
    Expect(first, {}, MemoryKind::kDevice);
  }
}

TEST_F(LoopsOnHost, AnObserverIsToldOfEveryRound) {
  std::vector<uint32_t> steps;
  RunOptions options;
  options.stepwise = true;
  options.user = &steps;
  options.on_step = [](void* user, uint32_t, uint32_t step, StepPhase phase) {
    if (phase == StepPhase::kBefore) static_cast<std::vector<uint32_t>*>(user)->push_back(step);
    return Status::Ok();
  };
  Expect(1, options);
  ASSERT_EQ(steps.size(), 2 + 4 * kLoopRounds);
  EXPECT_EQ(steps[4], 4u);
  EXPECT_EQ(steps[5], 1u);
  EXPECT_EQ(steps.back(), 5u);
}

TEST_F(LoopsOnHost, ATimerSumsTheRoundsOfAStep) {
  for (TimerDetail detail : {TimerDetail::kPartitions, TimerDetail::kSteps}) {
    Result<RunTimer> timer = RunTimer::Create(session_, 0, detail);
    ASSERT_TRUE(timer.ok()) << timer.status().message();
    RunOptions options;
    options.timer = &*timer;
    Expect(2, options);
    ASSERT_EQ(timer->size(), detail == TimerDetail::kSteps ? 6u : 1u);
    for (uint32_t i = 0; i < timer->size(); ++i) {
      Result<TimedInterval> interval = timer->Read(i);
      ASSERT_TRUE(interval.ok());
      EXPECT_GE(interval->duration, 0);
    }
  }
}
#endif

}  // namespace
}  // namespace rondo
