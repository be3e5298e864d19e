// Custom ops between the graphs of a GPU, over a libcuda without one: the cuda driver's promises beyond
// tests/conformance.
#include <gtest/gtest.h>

#include "runtime/run_timer.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/ops/call_sessions.h"

namespace rondo {
namespace {

using Floats = std::vector<float>;

class CallsOnCuda : public testing::Test {
 protected:
  CallsOnCuda() {
    fake_cuda::SetMachine({});
    CallOutsideGraphs(&calls_.sample.data, calls_.sample.arena);
    gpu_ = std::make_unique<FakeGpu>(&calls_.sample.data);
  }
  ~CallsOnCuda() override {
    calls_.Close();
    if (driver_ != nullptr) DestroyCudaDriver(driver_);
    gpu_.reset();
    EXPECT_EQ(fake_cuda::Held(), fake_cuda::Balance());
  }
  Status Open(const OpRegistry* ops, int count = 1) {
    CudaOptions options;
    options.ops = ops;
    RONDO_ASSIGN_OR_RETURN(driver_, CreateCudaDriver(options));
    return calls_.Open(driver_, count);
  }

  CallSessions calls_;
  std::unique_ptr<FakeGpu> gpu_;
  Driver* driver_ = nullptr;
};

TEST_F(CallsOnCuda, PlansWhoseOpsAreNotThereAreRefused) {
  EXPECT_SAYS(Open(nullptr),
              "Scale \"scale\": custom op \"test.Scale\", version 1, is in none of the libraries of ops");
}

TEST_F(CallsOnCuda, PlansThatLetAGraphContainThemAreRefused) {
  CustomOf(calls_.sample, 0).graph_safe = true;
  CustomOf(calls_.sample, 0).reason = "";
  const Status status = Open(&calls_.ops);
  EXPECT_SAYS(
      status,
      "Scale \"scale\": the plan lets a graph contain custom op \"test.Scale\", which runs on the host");
  EXPECT_EQ(status.code(), Code::kUnsupported);
}

// No copy of a run blocks inside libcuda, and none allocates memory.
TEST_F(CallsOnCuda, CopyTheCallersMemoryThroughStaging) {
  ASSERT_TRUE(Open(&calls_.ops, 2).ok());
  EXPECT_EQ(calls_.runtime.metrics().staging_bytes, 2u * 4096);
  const uint64_t ordinary = fake_cuda::CountHostCopies().ordinary;
  const int64_t blocks = fake_cuda::Held().host_blocks;
  Floats y;
  for (bool stepwise : {false, true}) {
    ASSERT_TRUE(calls_.Run({1, 2, 3, 4}, &y, stepwise).ok());
    EXPECT_EQ(y, (Floats{3, 6, 9, 12}));
  }
  EXPECT_EQ(calls_.Total(), (Floats{4, 8, 12, 16}));
  EXPECT_EQ(fake_cuda::CountHostCopies().ordinary, ordinary);
  EXPECT_EQ(fake_cuda::Held().host_blocks, blocks);
  calls_.sessions.clear();
  EXPECT_EQ(calls_.runtime.metrics().staging_bytes, 0u);
}

// Every partition that ends before or after a call gives that reason.
TEST_F(CallsOnCuda, AreTimedLikeGraphs) {
  ASSERT_TRUE(Open(&calls_.ops).ok());
  for (TimerDetail detail : {TimerDetail::kPartitions, TimerDetail::kSteps}) {
    Result<RunTimer> timer = RunTimer::Create(calls_.sessions[0], 0, detail);
    ASSERT_TRUE(timer.ok()) << timer.status().message();
    RunOptions options;
    options.timer = &*timer;
    const Floats x(4, 1);
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x.data(), 16}};
    ASSERT_TRUE(calls_.sessions[0].Run(0, inputs, {}, options).ok());
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
