// Custom ops of a plan, through sessions on the driver.
#include <thread>

#include "tests/conformance/conformance.h"
#include "tests/ops/call_sessions.h"
#include "tests/says.h"

namespace rondo::test {
namespace {

class Calls : public Conformance {
 protected:
  void SetUp() override {
    NEEDS(kCalls);
    if (!GetParam()->Lacks(Feature::kCallsInGraphs).empty())
      CallOutsideGraphs(&calls_.sample.data, calls_.sample.arena);
    code_ = GetParam()->AddCode(&calls_.sample.data);
    Open(1, &calls_.ops);
  }
  void TearDown() override {
    calls_.Close();
    code_.reset();
    Conformance::TearDown();
    EXPECT_EQ(CountsOfTestOps().created, CountsOfTestOps().destroyed);
  }
  CallSessions calls_;
  std::shared_ptr<void> code_;
};
CONFORMANCE_SUITE(Calls);

TEST_P(Calls, GiveWhatTheirOpsCompute) {
  const Status opened = calls_.Open(driver_);
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(CountsOfTestOps().taps,
            0);  // arming runs nothing, and does not record ops that graphs cannot contain
  EXPECT_EQ(CountsOfTestOps().scaled, 0);
  Floats y;
  for (bool stepwise : {false, true, false}) {
    const Status run = calls_.Run({1, 2, 3, 4}, &y, stepwise);
    ASSERT_TRUE(run.ok()) << run.message();
    EXPECT_EQ(y, (Floats{3, 6, 9, 12}));
  }
  EXPECT_EQ(calls_.Total(), (Floats{6, 12, 18, 24}));
  EXPECT_EQ(CountsOfTestOps().taps, 3);
  EXPECT_EQ(CountsOfTestOps().scaled, 3);
}

TEST_P(Calls, MakeInstancesOnceAPlanAndGiveThemBack) {
  ASSERT_TRUE(calls_.Open(driver_, 3).ok());
  EXPECT_EQ(CountsOfTestOps().created, 3);  // Scale, Accumulate, Tap; the sessions share them
  EXPECT_EQ(CountsOfTestOps().destroyed, 0);
  calls_.Close();
  EXPECT_EQ(CountsOfTestOps().destroyed, 3);
}

TEST_P(Calls, RunInSeveralSessionsAtOnce) {
  constexpr int kSessions = 4, kRuns = 100;
  ASSERT_TRUE(calls_.Open(driver_, kSessions).ok());
  const std::string held = Held();
  std::vector<std::thread> threads;
  std::vector<int> wrong(kSessions, 0);
  for (size_t s = 0; s < kSessions; ++s) {
    threads.emplace_back([&, s] {
      const float value = static_cast<float>(s + 1);
      for (int i = 0; i < kRuns; ++i) {
        Floats y;
        if (!calls_.Run({value, value, value, value}, &y, false, s).ok() || y[3] != 3 * value) ++wrong[s];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t s = 0; s < kSessions; ++s) {
    EXPECT_EQ(wrong[s], 0);
    EXPECT_EQ(calls_.Total(s)[0], 2 * kRuns * static_cast<float>(s + 1));
  }
  EXPECT_EQ(Held(), held) << "runs take no memory";
}

TEST_P(Calls, OfDataThatAnOpCannotWorkOnFailTheRunAlone) {
  ASSERT_TRUE(calls_.Open(driver_).ok());
  Floats y;
  const Status bad = calls_.Run({500, 0, 0, 0}, &y);  // Tap sees 1000
  EXPECT_SAYS(bad, "step 2 (Tap \"tap\"): custom op \"test.Tap\" of libtest.so: its first element is 1000");
  EXPECT_EQ(bad.code(), Code::kOutOfRange);
  EXPECT_STREQ(bad.source_node(), "Tap \"tap\"");
  EXPECT_EQ(calls_.Total()[0], 1000);  // steps before it have run
  ASSERT_TRUE(calls_.sessions[0].ResetState().ok());
  ASSERT_TRUE(calls_.Run({1, 1, 1, 1}, &y).ok());
  EXPECT_EQ(y, (Floats{3, 3, 3, 3}));
  EXPECT_EQ(calls_.Total(), (Floats{2, 2, 2, 2}));
}

TEST_P(Calls, ThatFailStopWhatComesAfterThemAndTheErrorSticks) {
  ASSERT_TRUE(calls_.Open(driver_).ok());
  Floats y;
  EXPECT_SAYS(calls_.Run({1000, 0, 0, 0}, &y), "step 2 (Tap \"tap\")");
  EXPECT_EQ(y[0], 0);  // the partition after the call has not run
  EXPECT_SAYS(calls_.Run({1, 1, 1, 1}, &y), "its first element is 2000");
  EXPECT_EQ(CountsOfTestOps().taps, 1);
}

TEST_P(Calls, OfOpsThatAreNotThereAreRefused) {
  CustomOf(calls_.sample, 0).version = 3;
  const Status status = calls_.Open(driver_);
  EXPECT_SAYS(status, "version 3");
  EXPECT_EQ(status.code(), Code::kUnsupported);
}

}  // namespace
}  // namespace rondo::test
