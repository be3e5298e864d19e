// Schedules by measured times: estimates use measured times where they exist, orders follow them, and are
// still nearly the best.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "compiler/schedule/op_times.h"
#include "compiler/schedule/overlap.h"
#include "formats/machine_code/binary_digest.h"
#include "formats/plan/measured_times.h"
#include "tests/compile/hand_made.h"
#include "tests/schedule/exhaustive.h"
#include "tests/schedule/overlap_programs.h"

namespace rondo {
namespace {

MeasuredTimes SomeTimes() {
  MeasuredTimes times = {"0123456789abcdef of NVIDIA H200, sm_90a",
                         {{0xfedcba9876543210, 12.345}, {7, 0.001}}};
  times.collectives = {
      {CollectiveOp::kAllReduce, 2, false, {{4096, 7.5}, {65536, 9}, {1048576, 24}}},
      {CollectiveOp::kAllReduce, 2, true, {{4096, 3.5}}},
      {CollectiveOp::kReduceScatter, 8, false, {{100, 4}}},
  };
  times.taken = 0.625;
  return times;
}

std::optional<MeasuredTimes> Parsed(const std::vector<std::string>& texts) {
  const std::vector<std::string_view> sources(texts.begin(), texts.end());
  return ParseMeasuredTimes(Span<const std::string_view>(sources));
}

TEST(MeasuredTimes, AreTextsAndBack) {
  const std::vector<std::string> texts = TextsOf(SomeTimes());
  const std::optional<MeasuredTimes> back = Parsed(texts);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(TextsOf(*back), texts);
  EXPECT_EQ(back->profile, SomeTimes().profile);
  EXPECT_EQ(back->kernels, SomeTimes().kernels);
  ASSERT_EQ(back->collectives.size(), 3u);
  EXPECT_EQ(back->collectives[0].microseconds, SomeTimes().collectives[0].microseconds);
  EXPECT_TRUE(back->collectives[1].small);
  EXPECT_EQ(back->taken, 0.625);
  for (const char* none : {"1.000", "-0.100", "nan", "0.5 us"})
    EXPECT_FALSE(
        Parsed({texts[0], std::string("measured loss of compute beside collectives: ") + none})->taken);
  EXPECT_FALSE(Parsed({"MatMul \"times from profile \"x\"\"", texts[1]}).has_value());
}

TEST(Estimates, OfKernelsAreTextsAndBack) {
  const KernelTimes times = {{0xfedcba9876543210, 12.345}, {7, 0.5}};
  std::vector<std::string> texts = TextsOfEstimates(times);
  EXPECT_EQ(texts[1], "estimated kernel fedcba9876543210: 12.345 us");
  texts.push_back("estimated kernel fedcba9876543211: nan us");
  texts.push_back("measured kernel fedcba9876543212: 1.000 us");
  const std::vector<std::string_view> sources(texts.begin(), texts.end());
  EXPECT_EQ(ParseEstimates(Span<const std::string_view>(sources)), times);
  EXPECT_FALSE(Parsed(texts).has_value());  // nothing was measured
}

TEST(MeasuredTimes, TextsThatAreNoneArePassedOver) {
  for (const char* text :
       {"measured kernel fedcba987654321: 1.000 us", "measured kernel fedcba9876543210: nan us",
        "measured kernel fedcba9876543210: inf us", "measured kernel fedcba9876543210: -1 us",
        "measured kernel fedcba9876543210: 1e99 us", "measured kernel fedcba9876543210: 1 us more",
        "measured kernel fedcba987654321g: 1 us", "measured kernel ", "measured all-reduce among ",
        "measured all-reduce among 2: 4096 bytes nan us", "measured all-reduce among 2: 4096 bytes 1 us, ",
        "measured all-reduce among 2: -1 bytes 1 us", "measured all-reduce among 4294967297: 1 bytes 1 us",
        "measured nothing among 2: 1 bytes 1 us"}) {
    const std::optional<MeasuredTimes> read = Parsed({"times from profile \"x\"", text});
    ASSERT_TRUE(read.has_value());
    EXPECT_TRUE(read->kernels.empty()) << text;
    EXPECT_TRUE(read->collectives.empty()) << text;
  }
}

TEST(MeasuredTimes, OfACollectiveAreInProportionAndEndAtFourTimesTheLargest) {
  const MeasuredCollective of = SomeTimes().collectives[0];
  EXPECT_DOUBLE_EQ(*of.Of(4096), 7.5);
  EXPECT_DOUBLE_EQ(*of.Of(1), 7.5);
  EXPECT_DOUBLE_EQ(*of.Of((4096 + 65536) / 2), (7.5 + 9) / 2);
  EXPECT_NEAR(*of.Of(4 << 20), 24 + 3 * 1048576 / of.Fit().rate, 1e-9);
  EXPECT_FALSE(of.Of((4 << 20) + 1).has_value());
  EXPECT_DOUBLE_EQ(*SomeTimes().collectives[1].Of(16), 3.5);
  EXPECT_FALSE(SomeTimes().collectives[1].Of(8192).has_value());
}

TEST(MeasuredTimes, SayUpToWhereSmallKernelsAreQuicker) {
  MeasuredTimes times = SomeTimes();
  EXPECT_EQ(times.SmallUpTo(CollectiveOp::kAllReduce, 2), 4096u);
  times.collectives[1].microseconds = {{4096, 3.5}, {16384, 4}, {65536, 9.5}, {262144, 1}};
  EXPECT_EQ(times.SmallUpTo(CollectiveOp::kAllReduce, 2), 16384u);
  times.collectives[1].microseconds[4096] = 8;
  EXPECT_EQ(times.SmallUpTo(CollectiveOp::kAllReduce, 2), 0u);
  EXPECT_FALSE(times.SmallUpTo(CollectiveOp::kAllReduce, 8).has_value());
  EXPECT_FALSE(times.SmallUpTo(CollectiveOp::kReduceScatter, 8).has_value());
}

TEST(MeasuredTimes, AreFittedByALineThatGoesThroughThem) {
  MeasuredCollective exact = {CollectiveOp::kAllReduce, 2};
  for (uint64_t bytes : {1000, 5000, 100000})
    exact.microseconds[bytes] = 6 + static_cast<double>(bytes) / 250;
  EXPECT_NEAR(exact.Fit().latency, 6, 1e-9);
  EXPECT_NEAR(exact.Fit().rate, 250, 1e-6);
  exact.microseconds = {{1000, 5}, {1000000, 4}};  // measured: more bytes take no longer
  EXPECT_TRUE(std::isinf(exact.Fit().rate));
  EXPECT_NEAR(exact.Fit().latency, (1 / 5. + 1 / 4.) / (1 / 25. + 1 / 16.), 1e-9);
  exact.microseconds = {{1000, 1}, {2000, 10}};  // extrapolation does not go below 0
  EXPECT_EQ(exact.Fit().latency, 0);
  EXPECT_GT(exact.Fit().rate, 0);
}

TEST(CostModel, TakesWhatWasMeasuredAndElseTheTable) {
  CostModel costs = CostModelOf(true, 2, CollectivesBy::kFaster), table = costs;
  MeasuredTimes times = SomeTimes();
  times.collectives[0].microseconds[1 << 20] = 9;  // faster than the table's small kernels
  costs.measured = std::make_shared<const MeasuredTimes>(times);
  const auto time = [](const CostModel& model, CollectiveOp op, int64_t bytes, size_t ranks) {
    return model.CollectiveTime(op, bytes, ranks);
  };
  EXPECT_DOUBLE_EQ(time(costs, CollectiveOp::kAllReduce, 4096, 0), 3.5);
  EXPECT_DOUBLE_EQ(time(costs, CollectiveOp::kAllReduce, 4096, 4),
                   time(table, CollectiveOp::kAllReduce, 4096, 4));
  EXPECT_DOUBLE_EQ(time(costs, CollectiveOp::kAllReduce, 1 << 20, 2), 9);
  EXPECT_DOUBLE_EQ(time(costs, CollectiveOp::kAllGather, 4096, 2),
                   time(table, CollectiveOp::kAllGather, 4096, 2));
  EXPECT_TRUE(costs.IsMeasured(CollectiveOp::kAllReduce, 4096, 2));
  EXPECT_FALSE(costs.IsMeasured(CollectiveOp::kAllReduce, 4096, 8));
  EXPECT_FALSE(table.IsMeasured(CollectiveOp::kAllReduce, 4096, 2));
  EXPECT_EQ(costs.TakenFromCompute(), 0.625);
  EXPECT_EQ(table.TakenFromCompute(), table.taken);
}

// FitTaken finds the share of time that compute loses beside collectives with which the estimate is as long
// as the run.
TEST(MeasuredTimes, TellWhatComputeLosesFromTheLengthOfARun) {
  TimedSteps steps;
  steps.collectives = 1;
  steps.steps = {{TimedKind::kStart, 0, 0, 40, {}},
                 {TimedKind::kCompute, 0, -1, 60, {}},
                 {TimedKind::kWait, 0, 0, 0, {}},
                 {TimedKind::kCompute, 0, -1, 100, {1, 2}}};
  const auto end_with = [&](double taken) {
    steps.taken = taken;
    return Simulate(steps, {0, 1, 2, 3}).end;
  };
  EXPECT_EQ(FitTaken(end_with(0.6), end_with), 0.6);
  EXPECT_EQ(FitTaken(1, end_with), 0);
  EXPECT_EQ(FitTaken(1e6, end_with), kMostTaken);
  // With nothing beside the collective, no share can be fitted.
  steps.steps[1].time = 0;
  EXPECT_FALSE(FitTaken(150, end_with).has_value());
}

TEST(CostModel, TakesEstimatesOfKernelsButNoLessThanTheirBytesTake) {
  CostModel costs = CostModelOf(true, 1);
  const Kernel kernel = {};
  const Traffic traffic = {1 << 20, 1 << 20, 0};
  const double bytes = costs.KernelTime(&kernel, traffic);
  EXPECT_DOUBLE_EQ(costs.KernelTime(&kernel, traffic, 100), 100);
  EXPECT_DOUBLE_EQ(costs.KernelTime(&kernel, traffic, 0.1), bytes);
  costs.estimated = std::make_shared<const KernelTimes>(KernelTimes{{KernelDigest(kernel), 50}});
  EXPECT_DOUBLE_EQ(costs.KernelTime(&kernel, traffic), 50);
  EXPECT_DOUBLE_EQ(costs.KernelTime(&kernel, traffic, 100), 100);
  MeasuredTimes times = {"measured", {{KernelDigest(kernel), 7}}};
  costs.measured = std::make_shared<const MeasuredTimes>(times);
  EXPECT_DOUBLE_EQ(costs.KernelTime(&kernel, traffic, 100), 7);
}

// Random times, unrelated to sizes, for kernels and collectives.
std::shared_ptr<const MeasuredTimes> OtherTimes(const LoweredProgram& program, uint64_t seed) {
  Random random(seed);
  MeasuredTimes times = {"test"};
  for (const LoweredOp& op : program.ops) {
    if (op.kind == LoweredKind::kKernel)
      times.kernels[KernelDigest(op.kernel)] = 0.5 + static_cast<double>(random.Below(60)) / 10;
  }
  MeasuredCollective all_reduce = {CollectiveOp::kAllReduce, 2};
  for (uint64_t bytes = 1; bytes < 4096; bytes *= 4)
    all_reduce.microseconds[bytes] = 2 + static_cast<double>(random.Below(100)) / 10;
  times.collectives = {all_reduce};
  return std::make_shared<const MeasuredTimes>(std::move(times));
}

std::vector<std::string> OrderOf(const LoweredProgram& program) {
  std::vector<std::string> order;
  for (const LoweredOp& op : program.ops) order.push_back(op.sources[0]);
  return order;
}

// d and e can run beside the collective.
TEST(Overlap, WhatAProfileSaysIsSlowGoesBesideTheCollective) {
  const auto make = [] {
    HandMade made;
    const int x = made.Input("x", 100), a = made.Temporary(100), sum = made.Temporary(100);
    const int d = made.Temporary(90), e = made.Temporary(80), f = made.Temporary(70);
    made.Sum({x}, a, "a");
    made.Wait(made.Start(CollectiveOp::kAllReduce, a, sum));
    made.Sum({sum}, f, "f");
    made.Sum({x}, d, "d");
    made.Sum({x}, e, "e");
    made.Sum({d, e, f}, made.Output("y", 10), "y");
    return made.Take();
  };
  LoweredProgram by_table = make(), by_profile = make();
  OverlapOptions options = Options(10);
  const OverlapReport table = OverlapCollectives(&by_table, options);
  MeasuredTimes times = {"test"};
  times.collectives = {{CollectiveOp::kAllReduce, 2, false, {{400, 40}}}};
  for (const LoweredOp& op : by_profile.ops) {
    if (op.kind == LoweredKind::kKernel) times.kernels[KernelDigest(op.kernel)] = 1;
    if (op.sources[0] == "Sum \"e\"") times.kernels[KernelDigest(op.kernel)] = 30;
  }
  options.costs.measured = std::make_shared<const MeasuredTimes>(times);
  const OverlapReport profile = OverlapCollectives(&by_profile, options);
  EXPECT_NEAR(table.collectives[0].time, 5.6, 1e-9);
  EXPECT_DOUBLE_EQ(profile.collectives[0].time, 40);
  EXPECT_DOUBLE_EQ(profile.end_before, 1 + 40 + 1 + 1 + 30 + 1);
  EXPECT_DOUBLE_EQ(profile.end_after, 1 + 40 + 1 + 1);
  EXPECT_DOUBLE_EQ(profile.collectives[0].beside_after, 31);
  EXPECT_LT(table.collectives[0].beside_after, 5.7);
}

TEST(Overlap, AProfileChangesTheOrder) {
  int changed = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    LoweredProgram by_table = Make(seed, 14, 3), by_profile = Make(seed, 14, 3), again = Make(seed, 14, 3);
    OverlapOptions options = Options(1);
    OverlapCollectives(&by_table, options);
    options.costs.measured = OtherTimes(by_profile, seed);
    OverlapCollectives(&by_profile, options);
    OverlapCollectives(&again, options);
    EXPECT_EQ(OrderOf(by_profile), OrderOf(again));
    changed += OrderOf(by_table) != OrderOf(by_profile);
  }
  EXPECT_GE(changed, 10);
}

TEST(Overlap, ByMeasuredTimesSmallProgramsEndWithinFivePercentOfTheBestOrder) {
  double worst = 1;
  for (double budget : {0.0, 1.0}) {
    for (uint64_t seed = 1000; seed < 1120; ++seed) {
      LoweredProgram program = Make(seed, 5 + static_cast<int>(seed % 3), 1 + static_cast<int>(seed % 2));
      OverlapOptions options = Options(budget);
      options.costs.measured = OtherTimes(program, seed);
      const double ratio = OverlapAgainstTheBest(&program, options);
      EXPECT_LE(ratio, 1.05) << "seed " << seed << ", budget " << budget;
      worst = std::max(worst, ratio);
    }
  }
  std::printf("the worst takes %.3f times as long as the best order\n", worst);
}

}  // namespace
}  // namespace rondo
