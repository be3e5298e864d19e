// What a GoogleTest program asks of its plans and runs. Link rondo::testing and GoogleTest; linking it
// replaces malloc's family in the test program, to count its calls, so that it does not go with sanitizers.
//
//   EXPECT_PLAN_OK("model.rondo");
//   EXPECT_PEAK_BYTES_LE(plan, 64 << 20);
//   EXPECT_NO_ALLOCATIONS(error = session.Run(0, inputs, outputs));
//
// What fails says what to look at: the largest buffers that are alive at the peak; who allocated.
#ifndef RONDO_RUNTIME_TESTING_TESTING_H_
#define RONDO_RUNTIME_TESTING_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>

#include "runtime/rondo.hpp"
#include "runtime/testing/allocation_counter.h"
#include "runtime/testing/allocation_watch.h"
#include "runtime/testing/peak.h"

// The statement allocates nothing and gives nothing back, on any thread of the process: malloc's family,
// operator new, mmap, munmap and mremap are counted from its beginning to its end.
#define EXPECT_NO_ALLOCATIONS(statement)                                                                  \
  do {                                                                                                    \
    ::rondo::AllocationWatch rondo_watch;                                                                 \
    statement;                                                                                            \
    rondo_watch.Stop();                                                                                   \
    EXPECT_EQ(rondo_watch.count(), 0u) << "calls that allocate or free memory in: " << #statement << "\n" \
                                       << rondo_watch.Callers();                                          \
  } while (0)

// The most device memory that the first session of `plan` (a rondo::Plan) takes, on all its devices together:
// weights, arena and state. That is all there is: nothing is allocated later.
#define EXPECT_PEAK_BYTES_LE(plan, limit) EXPECT_TRUE(::rondo::testing::PeakBytesAtMost(plan, limit))

// The plan in the file opens: it is read, verified, and its memory and order are proved by the checker.
#define EXPECT_PLAN_OK(path) EXPECT_TRUE(::rondo::testing::PlanIsOk(path))

namespace rondo::testing {

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

#endif  // RONDO_RUNTIME_TESTING_TESTING_H_
