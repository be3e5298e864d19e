// Alternatives of kernels: the format keeps them, and they must obey the rules for binaries that run.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "formats/plan/verifier.h"
#include "tests/plan/matmul_plan.h"
#include "tests/plan/round_trip.h"

namespace rondo {
namespace {

KernelAlternative& AlternativeOf(Sample& s, size_t i) { return Edit(s.data.modules[0].alternatives, i); }

TEST(Alternatives, RoundTripKeepsEverything) {
  const Sample s = MakeSampleWithAlternatives();
  EXPECT_TRUE(VerifyPlan(s.data).ok()) << VerifyPlan(s.data).message();
  Arena arena;
  Result<PlanFile> plan = RoundTrip(s, arena);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const PlanData& decoded = plan->data;
  ASSERT_EQ(decoded.modules[0].alternatives.size(), 2u);
  const KernelAlternative& first = decoded.modules[0].alternatives[0];
  EXPECT_EQ(first.choice, "mma 64x64x64 2x2x2 cluster 1");
  EXPECT_EQ(first.binary.entry, "rondo_k0_a0");
  EXPECT_EQ(first.binary.grid, 7u);
  EXPECT_TRUE(first.binary.waits);
  EXPECT_EQ(decoded.modules[0].alternatives[1].binary.matmul->m, 4);
  EXPECT_EQ(first.binary.choice, "mma 64x64x64");
  EXPECT_EQ(first.binary.text_digest, 11u);
  EXPECT_EQ(first.binary.digest, 12u);
  EXPECT_EQ(decoded.modules[0].compiler, "nvrtc 13.0");
}

TEST(Alternatives, AreHeldToTheRulesOfBinaries) {
  const struct {
    std::function<void(Sample&)> change;
    const char* says;
  } kRules[] = {
      {[](Sample& s) { AlternativeOf(s, 0).kernel = 1; }, "an alternative of kernel 1 of 1"},
      {[](Sample& s) { AlternativeOf(s, 1).kernel = kNone; }, "an alternative of kernel 4294967295 of 1"},
      {[](Sample& s) { AlternativeOf(s, 0).binary.entry = ""; }, "no entry"},
      {[](Sample& s) { AlternativeOf(s, 0).binary.grid = 0; }, "0 blocks"},
      {[](Sample& s) { AlternativeOf(s, 0).binary.shared = 1 << 20; }, "1048576 bytes of shared memory"},
      {[](Sample& s) { AlternativeOf(s, 1).binary.matmul = nullptr; }, "without a matmul"},
  };
  for (const auto& rule : kRules) {
    Sample s = MakeSampleWithAlternatives();
    rule.change(s);
    const Status status = VerifyPlan(s.data);
    ASSERT_FALSE(status.ok()) << rule.says;
    EXPECT_NE(std::string(status.message()).find(rule.says), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace rondo
