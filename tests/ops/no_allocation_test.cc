// Runs that call custom ops, in graphs and between them, allocate nothing.
#include <gtest/gtest.h>

#include "core/custom_op.h"
#include "drivers/host/host_driver.h"
#include "runtime/session.h"
#include "runtime/testing/allocation_counter.h"
#include "tests/plan/call_plan.h"

namespace rondo {
namespace {

TEST(Calls, AllocateNothingInAnyRunTheFirstIncluded) {
  OpRegistry ops;
  ASSERT_TRUE(ops.Register("libtest.so", RegisterTestOps).ok());
  HostOptions options;
  options.ops = &ops;
  Result<Driver*> driver = CreateHostDriver(options);
  ASSERT_TRUE(driver.ok());
  {
    Sample sample = MakeCallSample();
    Result<Plan> plan = Plan::FromData(sample.data, {});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    Result<Runtime> runtime = Runtime::Create(*driver);
    ASSERT_TRUE(runtime.ok());
    Result<Session> session = Session::Create(*runtime, *plan);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const float x[4] = {1, 2, 3, 4};
    float y[4] = {};
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x, 16}};
    const Output outputs[] = {{"y", kNone, DType::kF32, y, 16}};
    for (int round = 0; round < 3; ++round) {
      ResetAllocationCount();
      const bool good = session->Run(0, inputs, outputs).ok();
      const uint64_t count = AllocationCount();
      EXPECT_TRUE(good);
      EXPECT_EQ(count, 0u) << "round " << round;
    }
    EXPECT_EQ(y[3], 12);
  }
  DestroyHostDriver(*driver);
}

}  // namespace
}  // namespace rondo
