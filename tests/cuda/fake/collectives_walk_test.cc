// Every call to the CUDA driver in a session with collectives fails once, on any device and thread: there is
// a clean error, in bounded time, and nothing stays behind.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "drivers/cuda/cuda_driver.h"
#include "tests/collectives/mesh.h"
#include "tests/cuda/fake/fake_gpu.h"
#include "tests/cuda/rank_devices.h"
#include "tests/says.h"

namespace rondo {
namespace {

constexpr uint32_t kGpus = 2;

// Makes a driver and a session, runs twice, and destroys everything.
Status Life(const PlanData& data, Layers* layers, CollectiveKernels kernels = CollectiveKernels::kNccl) {
  RONDO_ASSIGN_OR_RETURN(Driver * driver, CreateCudaDriverFor(kernels));
  Status status = [&]() -> Status {
    RONDO_ASSIGN_OR_RETURN(Runtime runtime, Runtime::Create(driver));
    RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::FromData(data, {}));
    RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime, plan));
    for (bool stepwise : {false, true}) {
      RunOptions options;
      options.stepwise = stepwise;
      bool right = false;
      RONDO_RETURN_IF_ERROR(layers->Run(&session, &right, options));
      if (!right) return Status::Error(Code::kInternal, "results differ");
    }
    return Status::Ok();
  }();
  DestroyCudaDriver(driver);
  return status;
}

TEST(CollectivesWalk, EveryCallFailsOnce) {
  fake_cuda::Heal();  // earlier tests may have ended contexts
  fake_cuda::SetMachine({});
  Layers layers(kGpus, 2, 64, /*split=*/true);
  PlanData data = layers.mesh.data;
  const FakeGpu gpu(&data);
  const Status good = Life(data, &layers);
  ASSERT_TRUE(good.ok()) << good.message();
  for (const int error : {999, 700}) {
    uint64_t points = 0, harmless = 0;
    double longest = 0;
    for (;; ++points) {
      fake_cuda::Arm(points, error);
      const auto start = std::chrono::steady_clock::now();
      const Status status = Life(data, &layers);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      const fake_cuda::Count count = fake_cuda::Disarm();
      fake_cuda::Heal();
      longest = std::max(longest, took.count());
      ASSERT_EQ(fake_cuda::Held(), fake_cuda::Balance()) << count.failed << ", call " << points;
      if (!count.fired) {
        EXPECT_TRUE(status.ok()) << status.message();
        break;
      }
      harmless += status.ok();
      EXPECT_TRUE(status.ok() || status.message()[0] != 0);
      EXPECT_FALSE(NamesAStepTwice(status.message())) << status.message();
      EXPECT_NE(std::string(status.message()), "results differ") << count.failed << ", call " << points;
    }
    std::printf("error %d: %llu calls failed, %llu of them harmless, at most %.3f s\n", error,
                static_cast<unsigned long long>(points), static_cast<unsigned long long>(harmless), longest);
    EXPECT_GT(points, 100u);
    EXPECT_LE(harmless, points / 20);
    EXPECT_LT(longest, 5);
  }
}

// NCCL's configuration cannot turn multicast off, and a library does not change its process's environment.
TEST(Collectives, OverSeveralGpusAskTheEnvironmentAboutMulticast) {
  fake_cuda::Heal();
  fake_cuda::SetMachine({});
  Layers layers(kGpus, 2, 64, /*split=*/true);
  PlanData data = layers.mesh.data;
  const FakeGpu gpu(&data);
  unsetenv("NCCL_NVLS_ENABLE");
  const Status unasked = Life(data, &layers), small = Life(data, &layers, CollectiveKernels::kAuto);
  EXPECT_EQ(std::getenv("NCCL_NVLS_ENABLE"), nullptr);
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  EXPECT_SAYS(unasked, "NCCL_NVLS_ENABLE is not in the environment");
  EXPECT_EQ(unasked.code(), Code::kFailedPrecondition);
  EXPECT_TRUE(small.ok()) << small.message();
  const Status asked = Life(data, &layers);
  EXPECT_TRUE(asked.ok()) << asked.message();
}

}  // namespace
}  // namespace rondo
