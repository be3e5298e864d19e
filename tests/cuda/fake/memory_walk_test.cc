// Host memory that runs out anywhere in the cuda driver, its collectives and its custom ops, over fakes whose
// own memory never does: there is one error, nothing stays behind, and no process ends.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "drivers/cuda/cuda_driver.h"
#include "tests/collectives/mesh.h"
#include "tests/cuda/fake/fake_gpu.h"
#include "tests/cuda/fake/fake_session.h"
#include "tests/cuda/rank_devices.h"
#include "tests/fault/fault_points.h"
#include "tests/plan/call_plan.h"
#include "tests/says.h"

extern "C" __attribute__((visibility("default"))) void rondo_fake_works(int begins) {
  rondo::PauseFaults(begins != 0);
}

namespace rondo {
namespace {

class MemoryWalk : public testing::Test {
 protected:
  MemoryWalk() {
    fake_cuda::Heal();
    fake_cuda::SetMachine({});
    if (!MallocIsCounted()) skip_ = true;
  }

  // Calls `step` repeatedly; each call fails a later allocation, until no allocation is left to fail.
  void Walk(
      const char* what, uint64_t least, const std::function<Status()>& step,
      const std::function<void()>& after = [] {}) {
    for (int warm = 0; warm < 2; ++warm) {
      const Status good = step();
      ASSERT_TRUE(good.ok()) << what << ": " << good.message();
    }
    uint64_t point = 0, harmless = 0;
    for (;; ++point) {
      const fake_cuda::Balance held = fake_cuda::Held();
      ArmFaults(point, /*all_threads=*/true, /*throwing=*/true);
      const Status status = step();
      const FaultCount count = DisarmFaults();
      if (!count.fired) {
        EXPECT_TRUE(status.ok()) << status.message();
        break;
      }
      harmless += status.ok();
      EXPECT_TRUE(status.ok() || status.code() == Code::kOutOfMemory)
          << what << ", point " << point << ": " << status.message();
      EXPECT_FALSE(NamesAStepTwice(status.message())) << status.message();
      EXPECT_EQ(fake_cuda::Held(), held) << what << ", point " << point << ": " << status.message();
      after();
      ASSERT_FALSE(HasFailure()) << what << ", point " << point;
    }
    std::printf("%-8s %5llu allocations failed, %llu of them harmless\n", what,
                static_cast<unsigned long long>(point), static_cast<unsigned long long>(harmless));
    EXPECT_GE(point, least) << what;
    EXPECT_LE(harmless, point / 4) << what << ": failures go unnoticed";
  }

  bool skip_ = false;
};

class MemoryWalkOf : public MemoryWalk, public testing::WithParamInterface<CollectiveKernels> {};

TEST_P(MemoryWalkOf, ADriverOfSeveralGpus) {
  if (skip_) GTEST_SKIP() << "a sanitizer has the allocator";
  Layers layers(2, 2, 64, /*split=*/true);
  PlanData data = layers.mesh.data;
  const FakeGpu gpu(&data);
  Walk("driver", 2, [] {
    Result<Driver*> driver = CreateCudaDriverFor(GetParam());
    if (driver.ok()) DestroyCudaDriver(*driver);
    return driver.status();
  });
  Driver* driver = CreateCudaDriverFor(GetParam()).Take();
  {
    Runtime runtime = Runtime::Create(driver).Take();
    const Plan plan = Plan::FromData(data, {}).Take();
    Walk("session", 50, [&] { return Session::Create(runtime, plan).status(); });
    Session session = Session::Create(runtime, plan).Take();
    const auto run = [&](const RunOptions& options) {
      PauseFaults(true);
      for (float& value : layers.out) value = -1;
      PauseFaults(false);
      return session.Run(0, {layers.inputs.data(), layers.inputs.size()},
                         {layers.outputs.data(), layers.outputs.size()}, options);
    };
    RunOptions stepwise;
    stepwise.stepwise = true;
    Walk("run", 0, [&] { return run({}); });
    Walk("stepwise", 0, [&] { return run(stepwise); });
    layers.ExpectRight(&session);
  }
  DestroyCudaDriver(driver);
}

INSTANTIATE_TEST_SUITE_P(Through, MemoryWalkOf,
                         testing::Values(CollectiveKernels::kNccl, CollectiveKernels::kAuto));

TEST_F(MemoryWalk, OfCustomOps) {
  if (skip_) GTEST_SKIP() << "a sanitizer has the allocator";
  OpRegistry ops;
  ASSERT_TRUE(ops.Register("libtest.so", RegisterTestOps).ok());
  Sample sample = MakeCallSample();
  CallOutsideGraphs(&sample.data, sample.arena);
  const FakeGpu gpu(&sample.data);
  CudaOptions options;
  options.ops = &ops;
  Driver* driver = CreateCudaDriver(options).Take();
  {
    Runtime runtime = Runtime::Create(driver).Take();
    const Plan plan = Plan::FromData(sample.data, {}).Take();
    Walk("session", 30, [&] { return Session::Create(runtime, plan).status(); });
  }
  DestroyCudaDriver(driver);
}

}  // namespace
}  // namespace rondo
