// Custom ops between the graphs of a GPU: the cuda driver over a libcuda without one.
#include <gtest/gtest.h>

#include <thread>

#include "runtime/run_timer.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/plan/call_plan.h"

namespace rondo {
namespace {

using Floats = std::vector<float>;

class CallsOnCuda : public testing::Test {
 protected:
  CallsOnCuda() : sample_(MakeCallSample()) {
    fake_cuda::SetMachine({});
    EXPECT_TRUE(ops_.Register("libtest.so", RegisterTestOps).ok());
    OpCounts& counts = CountsOfTestOps();
    counts.created = counts.destroyed = counts.scaled = counts.taps = 0;
    CallOutsideGraphs(&sample_.data, sample_.arena);
    gpu_ = std::make_unique<FakeGpu>(&sample_.data, &ops_);
  }
  ~CallsOnCuda() override {
    s_.Close();
    gpu_.reset();
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
    EXPECT_EQ(CountsOfTestOps().created, CountsOfTestOps().destroyed);
  }
  Status Open(const OpRegistry* ops, int count = 1) { return s_.Open(sample_.data, {}, ops, count); }
  Status Run(const Floats& x, Floats* y, bool stepwise = false, size_t session = 0) {
    y->assign(4, 0);
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x.data(), 16}};
    const Output outputs[] = {{"y", kNone, DType::kF32, y->data(), 16}};
    RunOptions options;
    options.stepwise = stepwise;
    return s_.sessions[session].Run(0, inputs, outputs, options);
  }
  Floats Total(size_t session = 0) {
    Floats total(4);
    EXPECT_TRUE(s_.sessions[session].ReadState("total", total.data(), 16).ok());
    return total;
  }

  Sample sample_;
  OpRegistry ops_;
  std::unique_ptr<FakeGpu> gpu_;
  FakeSession s_;
};

TEST_F(CallsOnCuda, GiveWhatTheirOpsCompute) {
  const Status opened = Open(&ops_);
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(CountsOfTestOps().taps, 0);
  Floats y;
  for (bool stepwise : {false, true, false}) {
    const Status run = Run({1, 2, 3, 4}, &y, stepwise);
    ASSERT_TRUE(run.ok()) << run.message();
    EXPECT_EQ(y, (Floats{3, 6, 9, 12}));
  }
  EXPECT_EQ(Total(), (Floats{6, 12, 18, 24}));
  EXPECT_EQ(CountsOfTestOps().taps, 3);
}

TEST_F(CallsOnCuda, RunInSeveralSessionsAtOnce) {
  constexpr int kSessions = 4, kRuns = 100;
  ASSERT_TRUE(Open(&ops_, kSessions).ok());
  const int64_t blocks = fake_cuda::Held().host_blocks;
  std::vector<std::thread> threads;
  std::vector<int> wrong(kSessions, 0);
  for (size_t s = 0; s < kSessions; ++s) {
    threads.emplace_back([&, s] {
      const float value = static_cast<float>(s + 1);
      for (int i = 0; i < kRuns; ++i) {
        Floats y;
        if (!Run({value, value, value, value}, &y, false, s).ok() || y[3] != 3 * value) ++wrong[s];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t s = 0; s < kSessions; ++s) {
    EXPECT_EQ(wrong[s], 0);
    EXPECT_EQ(Total(s)[0], 2 * kRuns * static_cast<float>(s + 1));
  }
  EXPECT_EQ(fake_cuda::Held().host_blocks, blocks);  // runs take no memory
}

TEST_F(CallsOnCuda, DataThatAnOpCannotWorkOnFailsTheRunAlone) {
  ASSERT_TRUE(Open(&ops_).ok());
  Floats y;
  const Status bad = Run({500, 0, 0, 0}, &y);  // Tap sees 1000
  EXPECT_SAYS(bad, "step 2 (Tap \"tap\"): custom op \"test.Tap\" of libtest.so: its first element is 1000");
  EXPECT_EQ(bad.code(), Code::kOutOfRange);
  EXPECT_STREQ(bad.source_node(), "Tap \"tap\"");
  EXPECT_EQ(y[0], 1000);  // the call after it, which would have added x, was left out
  ASSERT_TRUE(s_.sessions[0].ResetState().ok());
  ASSERT_TRUE(Run({1, 1, 1, 1}, &y).ok());
  EXPECT_EQ(y, (Floats{3, 3, 3, 3}));
  EXPECT_EQ(Total(), (Floats{2, 2, 2, 2}));
}

TEST_F(CallsOnCuda, AFailureStopsWhatComesAfterItAndSticks) {
  ASSERT_TRUE(Open(&ops_).ok());
  Floats y;
  EXPECT_SAYS(Run({1000, 0, 0, 0}, &y), "step 2 (Tap \"tap\")");
  EXPECT_EQ(y[0], 0);
  EXPECT_SAYS(Run({1, 1, 1, 1}, &y), "its first element is 2000");
  EXPECT_EQ(CountsOfTestOps().taps, 1);
}

TEST_F(CallsOnCuda, PlansWhoseOpsAreNotThereAreRefused) {
  EXPECT_SAYS(Open(nullptr),
              "Scale \"scale\": custom op \"test.Scale\", version 1, is in none of the libraries of ops");
}

TEST_F(CallsOnCuda, PlansThatLetAGraphContainThemAreRefused) {
  CustomOf(sample_, 0).graph_safe = true;
  CustomOf(sample_, 0).reason = "";
  const Status status = Open(&ops_);
  EXPECT_SAYS(
      status,
      "Scale \"scale\": the plan lets a graph contain custom op \"test.Scale\", which runs on the host");
  EXPECT_EQ(status.code(), Code::kUnsupported);
}

// No copy of a run blocks inside libcuda, and none takes memory.
TEST_F(CallsOnCuda, CopyTheCallersMemoryThroughStaging) {
  ASSERT_TRUE(Open(&ops_, 2).ok());
  EXPECT_EQ(s_.runtime.metrics().staging_bytes, 2u * 4096);
  const uint64_t ordinary = fake_cuda::CountHostCopies().ordinary;
  const int64_t blocks = fake_cuda::Held().host_blocks;
  Floats y;
  for (bool stepwise : {false, true}) {
    ASSERT_TRUE(Run({1, 2, 3, 4}, &y, stepwise).ok());
    EXPECT_EQ(y, (Floats{3, 6, 9, 12}));
  }
  EXPECT_EQ(Total(), (Floats{4, 8, 12, 16}));
  EXPECT_EQ(fake_cuda::CountHostCopies().ordinary, ordinary);
  EXPECT_EQ(fake_cuda::Held().host_blocks, blocks);
  s_.sessions.clear();
  EXPECT_EQ(s_.runtime.metrics().staging_bytes, 0u);
}

// Every partition that ends before or after a call says so.
TEST_F(CallsOnCuda, AreTimedLikeGraphs) {
  ASSERT_TRUE(Open(&ops_).ok());
  for (TimerDetail detail : {TimerDetail::kPartitions, TimerDetail::kSteps}) {
    Result<RunTimer> timer = RunTimer::Create(s_.sessions[0], 0, detail);
    ASSERT_TRUE(timer.ok()) << timer.status().message();
    RunOptions options;
    options.timer = &*timer;
    const Floats x(4, 1);
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x.data(), 16}};
    ASSERT_TRUE(s_.sessions[0].Run(0, inputs, {}, options).ok());
    EXPECT_EQ(timer->size(), 5u);
    for (uint32_t i = 0; i < timer->size(); ++i) {
      Result<TimedInterval> interval = timer->Read(i);
      ASSERT_TRUE(interval.ok()) << interval.status().message();
      EXPECT_GE(interval->duration, 0);
    }
  }
}

}  // namespace
}  // namespace rondo
