#include "formats/plan/verifier.h"

#include <gtest/gtest.h>

#include "formats/plan/check/checker.h"
#include "tests/plan/sample_plan.h"

namespace rondo {
namespace {

TEST(Verifier, AcceptsTheSample) {
  Sample s = MakeSample();
  Status status = VerifyPlan(s.data);
  EXPECT_TRUE(status.ok()) << status.message();
  Arena arena;
  CheckReport report;
  status = CheckPlan(s.data, DefaultHostAllocator(), arena, &report);
  ASSERT_TRUE(status.ok()) << status.message();
  for (const auto& p : report.programs)
    printf("%lu %u %lu\n", p.arena_lower_bound, p.fullest_step, p.arena_bytes);
}

}  // namespace
}  // namespace rondo
