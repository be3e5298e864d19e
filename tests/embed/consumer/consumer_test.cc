// consumer_test PLAN: an embedder's GoogleTest program with rondo::testing.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <rondo/rondo_host.h>
#include <rondo/testing.h>

#include <cstdlib>
#include <rondo/rondo.hpp>
#include <vector>

const char* path = nullptr;

TEST(Consumer, ItsPlanIsProved) {
  EXPECT_PLAN_OK(path);
  EXPECT_NONFATAL_FAILURE(EXPECT_PLAN_OK("nowhere.rondo"), "nowhere.rondo");
}

TEST(Consumer, ItsPlanIsSmall) {
  rondo::Plan plan;
  rondo::Error error = rondo::Plan::Open(path, &plan);
  ASSERT_FALSE(error) << error.message();
  EXPECT_PEAK_BYTES_LE(plan, 16 + 128 + 64);
  EXPECT_NONFATAL_FAILURE(EXPECT_PEAK_BYTES_LE(plan, 16 + 128 + 63), "the largest buffers alive then:");
}

TEST(Consumer, ItsMemoryIsUsedAsThePlanSays) {
  rondo::Plan plan;
  ASSERT_FALSE(rondo::Plan::Open(path, &plan));
  EXPECT_LIFECYCLE_OK(plan);
  EXPECT_LIFECYCLE_OK_ON(plan, rondo_host_driver_create(1, 3));
  EXPECT_NONFATAL_FAILURE(EXPECT_LIFECYCLE_OK_ON(plan, nullptr), "there is no driver: it is NULL");
  EXPECT_NONFATAL_FAILURE(EXPECT_LIFECYCLE_OK(rondo::Plan()), "the plan is not open");
}

TEST(Consumer, ItsRunsAllocateNothing) {
  rondo::Plan plan;
  rondo::Runtime runtime;
  rondo::Session session;
  ASSERT_FALSE(rondo::Plan::Open(path, &plan));
  ASSERT_FALSE(rondo::Runtime::Create(rondo_host_driver_create(2, 1), &runtime));
  ASSERT_FALSE(rondo::Session::Create(runtime, plan, &session));
  const float x[] = {10, 20, 30, 40};
  std::vector<float> y(4);
  rondo::Error error;
  EXPECT_NO_ALLOCATIONS(error = session.Run(0, {rondo::In("x", x, {4})}, {rondo::Out("y", y)}));
  EXPECT_FALSE(error) << error.message();
  EXPECT_EQ(y[3], 160);
  void* (*volatile allocate)(size_t) = malloc;
  void* block = nullptr;
  EXPECT_NONFATAL_FAILURE(EXPECT_NO_ALLOCATIONS(block = allocate(10)), "call 1, from\n");
  free(block);
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  path = argv[1];
  return RUN_ALL_TESTS();
}
