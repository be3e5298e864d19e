// What a GoogleTest program asks of its plans and runs. Link rondo::testing and GoogleTest; linking it
// replaces malloc's family in the test program, to count its calls, so that it does not go with sanitizers.
//
//   EXPECT_PLAN_OK("model.rondo");
//   EXPECT_PEAK_BYTES_LE(plan, 64 << 20);
//   EXPECT_NO_ALLOCATIONS(error = session.Run(0, inputs, outputs));
#ifndef RONDO_RUNTIME_TESTING_TESTING_H_
#define RONDO_RUNTIME_TESTING_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "runtime/rondo.hpp"
#include "runtime/testing/allocation_counter.h"

// The statement allocates nothing and gives nothing back, on any thread of the process: malloc's family,
// operator new, mmap, munmap and mremap are counted from its beginning to its end.
#define EXPECT_NO_ALLOCATIONS(statement)                                                         \
  do {                                                                                           \
    ::rondo::ResetAllocationCount();                                                             \
    statement;                                                                                   \
    const uint64_t rondo_allocations = ::rondo::AllocationCount();                               \
    EXPECT_EQ(rondo_allocations, 0u) << "calls that allocate or free memory in: " << #statement; \
  } while (0)

// The most device memory that the first session of `plan` (a rondo::Plan) takes, on all its devices together:
// weights, arena and state. That is all there is: nothing is allocated later.
#define EXPECT_PEAK_BYTES_LE(plan, limit) \
  EXPECT_LE(::rondo::testing::PeakBytes(plan), static_cast<uint64_t>(limit))

// The plan in the file opens: it is read, verified, and its memory and order are proved by the checker.
#define EXPECT_PLAN_OK(path) EXPECT_TRUE(::rondo::testing::PlanIsOk(path))

namespace rondo::testing {

inline uint64_t PeakBytes(const api::Plan& plan) {
  rondo_requirements requirements;
  if (plan.GetRequirements(&requirements)) return UINT64_MAX;
  uint64_t sum = 0;
  for (uint32_t device = 0; device < requirements.devices; ++device) {
    rondo_device_bytes bytes;
    if (plan.GetDeviceBytes(device, &bytes)) return UINT64_MAX;
    sum += bytes.weights + bytes.arena + bytes.state;
  }
  return sum;
}

inline ::testing::AssertionResult PlanIsOk(const char* path) {
  api::Plan plan;
  api::Error error = api::Plan::Open(path, &plan);
  if (!error) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << error.message();
}

}  // namespace rondo::testing

#endif  // RONDO_RUNTIME_TESTING_TESTING_H_
