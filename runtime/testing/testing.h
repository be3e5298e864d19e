// Macros for GoogleTest programs that test plans and runs. Link rondo::testing and GoogleTest. Linking it
// replaces malloc's family in the test program to count calls, so it cannot be combined with sanitizers.
//
//   EXPECT_PLAN_OK("model.rondo");
//   EXPECT_LIFECYCLE_OK(plan);
//   EXPECT_PEAK_BYTES_LE(plan, 64 << 20);
//   EXPECT_NO_ALLOCATIONS(error = session.Run(0, inputs, outputs));
//
// A failure says where to look: the largest buffers alive at the peak, the callers that allocated, which step
// did what to which buffer. matchers.h has matchers by the model's own names; it needs GoogleMock.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "runtime/rondo.hpp"
#include "runtime/testing/allocation_counter.h"
#include "runtime/testing/allocation_watch.h"
#include "runtime/testing/lifecycle.h"
#include "runtime/testing/peak.h"

// The statement neither allocates nor frees memory, on any thread of the process: malloc's family, operator
// new, mmap, munmap and mremap are counted while it runs.
#define EXPECT_NO_ALLOCATIONS(statement)                                                                  \
  do {                                                                                                    \
    ::rondo::AllocationWatch rondo_watch;                                                                 \
    statement;                                                                                            \
    rondo_watch.Stop();                                                                                   \
    EXPECT_EQ(rondo_watch.count(), 0u) << "calls that allocate or free memory in: " << #statement << "\n" \
                                       << rondo_watch.Callers();                                          \
  } while (0)

// Limits the device memory that the first session of `plan` (a rondo::Plan) takes, over all its devices:
// weights, arena and state. Nothing is allocated later.
#define EXPECT_PEAK_BYTES_LE(plan, limit) EXPECT_TRUE(::rondo::testing::PeakBytesAtMost(plan, limit))

// The plan in the file opens: it is read and verified, and the checker proves its memory and order.
#define EXPECT_PLAN_OK(path) EXPECT_TRUE(::rondo::testing::PlanIsOk(path))

// Every program of `plan` (a rondo::Plan) uses memory as the plan says, step by step over poisoned memory and
// as graphs, on virtual devices of the host driver (runtime/verify/README.md lists what is found). Include
// <rondo/rondo_host.h> and link rondo::host. Plans for GPUs work too.
#define EXPECT_LIFECYCLE_OK(plan) \
  EXPECT_LIFECYCLE_OK_ON(plan, rondo_host_driver_create(2, ::rondo::testing::DevicesOf(plan)))
// The same on another driver, which is taken over, e.g. rondo_cuda_driver_create(nullptr), or a driver with
// libraries of custom ops.
#define EXPECT_LIFECYCLE_OK_ON(plan, driver) EXPECT_TRUE(::rondo::testing::LifecycleIsOk(plan, driver))

namespace rondo::testing {

inline ::testing::AssertionResult LifecycleIsOk(const api::Plan& plan, rondo_driver* driver) {
  const std::string findings = TakeText(rondo_testing_verify(plan.get(), driver));
  if (findings.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "memory is not used as the plan says:\n"
                                       << findings
                                       << "A plan that opens has been proved: look at the driver, the kernel "
                                          "or the custom op of the step that is "
                                          "named first. `rondo run PLAN --verify` shows the same.";
}

inline ::testing::AssertionResult PeakBytesAtMost(const api::Plan& plan, uint64_t limit) {
  const uint64_t peak = PeakBytes(plan);
  if (peak <= limit) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "the plan takes " << peak << " bytes, more than " << limit << "; " << PeakText(plan);
}

inline ::testing::AssertionResult PlanIsOk(const char* path) {
  api::Plan plan;
  api::Error error = api::Plan::Open(path, &plan);
  if (!error) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << error.message();
}

}  // namespace rondo::testing
