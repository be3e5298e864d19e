// The arithmetic of tools/bench/gpu_table: over the compiler's own estimates, it gives the table back.
#include <gtest/gtest.h>

#include <set>

#include "tools/bench/gpu_table/measure_table.h"

namespace rondo::bench {
namespace {

Result<std::vector<TableRow>> TableOf(const CudaTarget& target) {
  return MeasureTable(target, [&](BenchKernel& kernel) { return EstimatedCycles(target, kernel); });
}

TEST(GpuTable, EstimatesGiveTheTableBack) {
  const Result<std::vector<TableRow>> rows = TableOf(TargetOf("sm_90a"));
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  EXPECT_EQ(rows->size(), 26u);
  // Numbers of clusters are whole.
  const std::set<std::string> kCoarse = {"clusters_of_4", "clusters_of_8"};
  for (const TableRow& row : *rows) {
    ASSERT_TRUE(row.measured) << row.entry;
    EXPECT_NEAR(*row.measured, row.table, row.table * (kCoarse.count(row.entry) != 0 ? 0.07 : 0.002))
        << row.entry;
  }
}

TEST(GpuTable, OlderGpusHaveFewerEntries) {
  const Result<std::vector<TableRow>> rows = TableOf(TargetOf("sm_80"));
  ASSERT_TRUE(rows.ok()) << rows.status().message();
  for (const TableRow& row : *rows) {
    // By TMA, by clusters, or by tiles larger than the 99 KiB that every GPU of sm_80 has.
    const bool newer = row.entry == "l2_all_bytes" || row.entry == "tf32" ||
                       row.entry.find("tma") != std::string::npos || row.entry.rfind("split", 0) == 0 ||
                       row.entry.rfind("clusters", 0) == 0;
    EXPECT_EQ(row.measured.has_value(), !newer) << row.entry;
  }
}

}  // namespace
}  // namespace rondo::bench
