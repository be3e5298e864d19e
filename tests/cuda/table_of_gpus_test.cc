// The fit of tools/bench/gpu_table finds the table from which the times were made.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tools/bench/gpu_table/bench_cases.h"
#include "tools/bench/gpu_table/fit_table.h"

namespace rondo::bench {
namespace {

using cuda::GpuTable;

// The time of every `every`-th case by that table, with random noise.
std::vector<TimedCase> TimesBy(CudaTarget target, const GpuTable& table, double noise, size_t every) {
  const std::vector<BenchCase> cases = BenchCases(target);
  target.table = &table;
  std::mt19937_64 random(7);
  std::vector<TimedCase> times;
  for (size_t i = 0; i < cases.size(); i += every) {
    const Result<std::optional<double>> cycles = EstimatedCycles(target, *cases[i].Kernel());
    if (!cycles.ok() || !*cycles) continue;
    const double part = static_cast<double>(random() >> 11) * 0x1p-53;
    times.push_back({cases[i], **cycles * std::exp(noise * (2 * part - 1))});
  }
  return times;
}

TEST(GpuTable, AFitFindsTheTableOfTheTimes) {
  const CudaTarget target = TargetOf("sm_90a");
  GpuTable other = cuda::GpuTableOf(target);
  other.mma *= 0.7;
  other.wgmma_tma *= 1.3;
  other.tile_start *= 0.5;
  other.tma_start *= 2;
  other.l2_copy_bytes *= 1.4;
  other.map_bytes *= 2.5;
  other.stream_start *= 1.7;
  const Result<FittedTable> fitted = FitTable(target, cuda::GpuTableOf(target), TimesBy(target, other, 0, 1));
  ASSERT_TRUE(fitted.ok()) << fitted.status().message();
  for (const VariantError& variant : fitted->after.variants)
    EXPECT_LT(variant.median, 0.05) << variant.variant;
  EXPECT_LE(fitted->after.choice, fitted->before.choice);
  EXPECT_LT(fitted->after.choice, 1.02);
  for (double GpuTable::*value : {&GpuTable::mma, &GpuTable::wgmma_tma, &GpuTable::map_bytes})
    EXPECT_NEAR(fitted->table.*value, other.*value, 0.1 * other.*value);
}

TEST(GpuTable, NoiseLeavesEveryEntryPositiveAndNearTheTimes) {
  const CudaTarget target = TargetOf("sm_90a");
  const GpuTable& table = cuda::GpuTableOf(target);
  const Result<FittedTable> fitted = FitTable(target, table, TimesBy(target, table, 0.2, 3));
  ASSERT_TRUE(fitted.ok()) << fitted.status().message();
  for (const TableEntry& entry : TableEntries()) EXPECT_GT(fitted->table.*entry.value, 0) << entry.name;
  for (const VariantError& variant : fitted->after.variants)
    EXPECT_LT(variant.median, 0.15) << variant.variant;
}

TEST(GpuTable, CasesAreNamedAndFoundByTheirNames) {
  for (const BenchCase& one : BenchCases(TargetOf("sm_90a"))) {
    const std::optional<BenchCase> found = ParseBenchCase(one.Name());
    ASSERT_TRUE(found) << one.Name();
    EXPECT_EQ(found->Name(), one.Name());
  }
  EXPECT_FALSE(ParseBenchCase("bf16 64 64 64 nothing 3"));
  EXPECT_FALSE(ParseBenchCase("map"));
}

TEST(GpuTable, OlderGpusHaveFewerEntries) {
  const CudaTarget target = TargetOf("sm_80");
  const GpuTable& table = cuda::GpuTableOf(target);
  const Result<FittedTable> fitted = FitTable(target, table, TimesBy(target, table, 0, 3));
  ASSERT_TRUE(fitted.ok()) << fitted.status().message();
  for (size_t e = 0; e < TableEntries().size(); ++e) {
    const std::string name = TableEntries()[e].name;
    const bool newer = name.find("tma") != std::string::npos || name.rfind("clusters", 0) == 0;
    const bool older = name == "mma" || name == "stream_start" || name == "map_bytes";
    if (newer || older) {
      EXPECT_EQ(fitted->determined[e], older) << name;
    }
  }
}

}  // namespace
}  // namespace rondo::bench
