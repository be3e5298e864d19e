// Runs that end early, at a time limit or by Cancel. Valid plans whose run takes 2^53 rounds end at once, and
// the session is then in the state that session.h promises.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/session.h"
#include "tests/runtime/drivers.h"
#include "tests/runtime/endless_plan.h"
#include "tests/runtime/open_tiny.h"

namespace rondo {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kMillisecond = 1'000'000;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class StopTest : public testing::Test {
 protected:
  void Open(const TinyPlan& tiny, Driver* driver, uint32_t workers = 1) {
    RuntimeOptions options;
    options.async_workers = workers;
    const Status opened = OpenTiny(tiny, driver, &plan_, &runtime_, options);
    ASSERT_TRUE(opened.ok()) << opened.message();
    session_ = MakeSession(runtime_, plan_);
  }
  // Must be called before the driver is destroyed.
  void Close() {
    session_ = Session();
    runtime_ = Runtime();
  }
  Status Pick(const RunOptions& options) {
    return session_.Run(TinyPlan::kPick, pick_in_, pick_out_, options);
  }
  Status Add(const RunOptions& options) { return session_.Run(TinyPlan::kAdd, add_in_, add_out_, options); }
  Status Peek() {
    const Output outputs[] = {{"now", kNone, DType::kF32, now_, 16}};
    return session_.Run(TinyPlan::kPeek, {}, outputs);
  }
  static RunOptions Limit(uint64_t milliseconds) {
    RunOptions options;
    options.timeout_ns = milliseconds * kMillisecond;
    return options;
  }

  float x_[4] = {1, 1, 1, 1}, y_[4] = {}, z_ = 0, now_[4] = {};
  int64_t index_ = 2;
  const Input pick_in_[1] = {{"index", kNone, DType::kI64, {1}, &index_, 8}};
  const Output pick_out_[1] = {{"z", kNone, DType::kF32, &z_, 4}};
  const Input add_in_[1] = {{"x", kNone, DType::kF32, {4}, x_, 16}};
  const Output add_out_[1] = {{"y", kNone, DType::kF32, y_, 16}};
  Plan plan_;
  Runtime runtime_;
  Session session_;
};

#ifdef RONDO_HAVE_HOST
class EndlessTest : public StopTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override { Open(endless_, driver_.get()); }
  void TearDown() override { Close(); }
  RunOptions Limit(uint64_t milliseconds) const {
    RunOptions options = StopTest::Limit(milliseconds);
    options.stepwise = GetParam();
    return options;
  }
  EndlessPlan endless_;
  DriverHandle driver_ = MakeDriver("host");
};

TEST_P(EndlessTest, ALimitEndsARunOf2To53Rounds) {
  for (uint64_t limit : {1, 50, 200}) {
    const std::clock_t before = std::clock();
    const auto start = Clock::now();
    Status status = Pick(Limit(limit));
    const double took = MillisecondsSince(start);
    const double worked = 1000.0 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
    EXPECT_EQ(std::string(status.message()),
              "program \"pick\", step 0 (Gather \"gather_node\"): stopped at the "
              "time limit of " +
                  std::to_string(limit * 1000) + " us");
    EXPECT_GE(took, static_cast<double>(limit));
    EXPECT_LT(worked, static_cast<double>(limit) + 400);  // CPU time, so other processes do not count
  }
  EXPECT_TRUE(session_.status().ok()) << "its program has no state";
  EXPECT_TRUE(Peek().ok());
}

TEST_P(EndlessTest, AStateThatMayBeHalfWrittenMustBeReset) {
  EXPECT_EQ(Add(Limit(20)).code(), Code::kDeadlineExceeded);
  Status again = Peek();
  EXPECT_EQ(again.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(
      std::string(again.message()),
      "a run was stopped and state may be half written; reset it to go on: program \"add\", step 1 (Add "
      "\"add_node\"): stopped at the time limit of 20000 us");
  EXPECT_EQ(session_.ReadState("total", now_, 16).code(), Code::kDeadlineExceeded);
  Session fresh = MakeSession(runtime_, plan_);
  EXPECT_EQ(fresh.CopyStatesFrom(session_).code(), Code::kDeadlineExceeded) << "of which half is written";
  EXPECT_TRUE(session_.CopyStatesFrom(fresh).ok()) << "all of it is written anew";
  EXPECT_TRUE(Peek().ok());
  EXPECT_EQ(Add(Limit(20)).code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(session_.ResetState().ok());
  ASSERT_TRUE(session_.ReadState("total", now_, 16).ok());
  EXPECT_EQ(now_[0], 0);
  EXPECT_TRUE(Peek().ok());
}

TEST_P(EndlessTest, AnotherThreadCancels) {
  for (int round = 0; round < 5; ++round) {
    std::thread canceller([&] {
      while (session_.idle()) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(round * 5));
      // Repeatedly, because the session is in use a moment before its run can be cancelled.
      for (int i = 0; i < 1000 && !session_.idle(); ++i) {
        session_.Cancel();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    Status status = Pick(Limit(20000));
    canceller.join();
    EXPECT_EQ(status.code(), Code::kCancelled);
    EXPECT_STREQ(status.message(), round == 0
                                       ? status.message()
                                       : "program \"pick\", step 0 (Gather \"gather_node\"): cancelled");
  }
  session_.Cancel();  // no run is under way
  EXPECT_TRUE(Peek().ok());
}

INSTANTIATE_TEST_SUITE_P(Graphs, EndlessTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "stepwise" : "graphs"; });

struct Ended {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Status status;
  Completion completion() {
    return {[](const Completion& self, const Status& status) {
              auto* to = static_cast<Ended*>(self.user);
              std::lock_guard<std::mutex> lock(to->mutex);
              to->done = true;
              to->status = status;
              to->changed.notify_all();
            },
            this};
  }
  Status Wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done; });
    return status;
  }
};

TEST_F(StopTest, ARunThatWaitsItsTimeInTheQueueNeverBegins) {
  EndlessPlan endless;
  DriverHandle driver = MakeDriver("host");
  Open(endless, driver.get());
  Session second = MakeSession(runtime_, plan_);
  Ended first_end, second_end;
  ASSERT_TRUE(
      session_.RunAsync(TinyPlan::kPick, pick_in_, pick_out_, first_end.completion(), Limit(100)).ok());
  ASSERT_TRUE(second.RunAsync(TinyPlan::kAdd, add_in_, add_out_, second_end.completion(), Limit(10)).ok());
  EXPECT_EQ(first_end.Wait().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(second_end.Wait().code(), Code::kDeadlineExceeded);
  EXPECT_STREQ(second_end.Wait().message(), "stopped at the time limit of 10000 us");
  EXPECT_TRUE(second.status().ok()) << "its state is what it was";
  Ended cancelled;
  ASSERT_TRUE(session_.RunAsync(TinyPlan::kPick, pick_in_, pick_out_, cancelled.completion()).ok());
  session_.Cancel();
  EXPECT_EQ(cancelled.Wait().code(), Code::kCancelled);
  second = Session();
  Close();
}

TEST_F(StopTest, ASessionsOwnLimitIsThatOfItsRuns) {
  EndlessPlan endless;
  DriverHandle driver = MakeDriver("host");
  Open(endless, driver.get());
  SessionOptions options;
  options.run_timeout_ns = 20 * kMillisecond;
  Result<Session> session = Session::Create(runtime_, plan_, options);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(session->Run(TinyPlan::kPick, pick_in_, pick_out_).code(), Code::kDeadlineExceeded);
  const MetricsData data = runtime_.metrics();
  EXPECT_EQ(data.errors[static_cast<int>(Code::kDeadlineExceeded)], 1u);
  session = Session();
  Close();
}
#endif

// The driver cannot stop a launch, but the next partition is not begun.
TEST_F(StopTest, ARunIsCancelledBetweenPartitions) {
  TinyPlan tiny(true);
  FakeDriver driver;
  Open(tiny, &driver);
  driver.controls.on_launch = [](void* user) { static_cast<Session*>(user)->Cancel(); };
  driver.controls.user = &session_;
  Status status = Add({});
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_EQ(driver.controls.calls["LaunchGraph"], 1);
  driver.controls.on_launch = nullptr;
  EXPECT_EQ(Add({}).code(), Code::kCancelled) << "of the state";
  EXPECT_TRUE(session_.ResetState().ok());
  EXPECT_TRUE(Add({}).ok());
  EXPECT_EQ(y_[3], 4);
  Close();
}

TEST_F(StopTest, ALimitHoldsBetweenPartitions) {
  TinyPlan tiny(true);
  FakeDriver driver;
  Open(tiny, &driver);
  driver.controls.on_launch = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  EXPECT_EQ(Add(Limit(5)).code(), Code::kDeadlineExceeded);
  EXPECT_EQ(driver.controls.calls["LaunchGraph"], 1);
  Close();
}

// A launched partition may have only just begun. So with a limit the run waits for its end before the next
// launch.
TEST_F(StopTest, ALimitIsLookedAtWhenAPartitionHasEnded) {
  TinyPlan tiny(true);
  FakeDriver driver;
  Open(tiny, &driver);
  std::map<std::string, int>& calls = driver.controls.calls;
  calls.clear();
  EXPECT_TRUE(Add({}).ok());
  const int partitions = calls["LaunchGraph"], without = calls["Synchronize"];
  calls.clear();
  EXPECT_TRUE(Add(Limit(100000)).ok());
  EXPECT_EQ(calls["LaunchGraph"], partitions);
  EXPECT_EQ(calls["Synchronize"], without + partitions - 1);
  Close();
}

TEST_F(StopTest, ALimitThatIsNotReachedChangesNothing) {
  TinyPlan tiny(true);
  FakeDriver driver;
  Open(tiny, &driver);
  EXPECT_TRUE(Add(Limit(100000)).ok());
  RunOptions longest;
  longest.timeout_ns = ~uint64_t{0};
  EXPECT_TRUE(Add(longest).ok());
  EXPECT_EQ(y_[3], 4);
  Close();
}

TEST_F(StopTest, CreateHasALimit) {
  TinyPlan tiny(false, true);
  FakeDriver driver;
  Open(tiny, &driver);
  session_ = Session();
  const int objects = driver.controls.live_objects;
  SessionOptions options;
  options.timeout_ns = 1;
  Result<Session> session = Session::Create(runtime_, plan_, options);
  EXPECT_EQ(session.status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(driver.controls.live_objects, objects);
  options.timeout_ns = 60'000 * kMillisecond;
  EXPECT_TRUE(Session::Create(runtime_, plan_, options).ok());
  Close();
}

}  // namespace
}  // namespace rondo
