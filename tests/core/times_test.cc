// Small formulas that compiler, runtime and drivers share.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/collective_time.h"
#include "core/device_steps.h"

namespace rondo {
namespace {

TEST(CollectiveTimes, AreTheTablesAndInProportionBetween) {
  const std::vector<AllReduceTime> table = {{1000, 10, 30}, {2000, 20, 40, 26}, {6000, 60, 100}};
  const auto of = [&](double bytes, double ranks) {
    return AllReduceMicroseconds({table.data(), table.size()}, bytes, ranks);
  };
  for (const AllReduceTime& row : table) {
    EXPECT_NEAR(of(row.bytes, 2), row.us2, 1e-9);
    EXPECT_NEAR(of(row.bytes, 8), row.us8, 1e-9);
    EXPECT_NEAR(of(row.bytes, 4), row.us4 != 0 ? row.us4 : (row.us2 + row.us8) / 2, 1e-9);
    EXPECT_NEAR(of(row.bytes, 1), row.us2, 1e-9);
    EXPECT_NEAR(of(row.bytes, 64), row.us8, 1e-9);
  }
  EXPECT_NEAR(of(1500, 2), 15, 1e-9);
  EXPECT_NEAR(of(3000, 8), 55, 1e-9);
  EXPECT_NEAR(of(2000, 2 * std::sqrt(2.0)), 23, 1e-9);  // halfway (in doublings) from 2 to 4 devices
  EXPECT_NEAR(of(2000, 4 * std::sqrt(2.0)), 33, 1e-9);  // and from 4 to 8
  EXPECT_NEAR(of(10'000, 2), 100, 1e-9);                // beyond the last size it continues the last slope
  EXPECT_NEAR(of(0, 2), 10, 1e-9);                      // never below the first
  EXPECT_NEAR(AllReduceMicroseconds({table.data(), 1}, 5000, 2), 10, 1e-9);
}

TEST(CollectiveTimes, ATwoShotIsForManyBytesAmongMoreThanTwo) {
  EXPECT_FALSE(TwoShotIsQuicker(1e12, 2));  // with 2 ranks both send the same amount
  EXPECT_FALSE(TwoShotIsQuicker(4096, 8));
  EXPECT_TRUE(TwoShotIsQuicker(1 << 20, 8));
  EXPECT_TRUE(TwoShotIsQuicker(1 << 20, 4));
  // The size at which sending the difference (2 * bytes * 7 * 3/4, at 250 GB/s) takes 1.8 us.
  const double even = 1.8 * 2.5e5 / (2 * 7 * 0.75);
  EXPECT_FALSE(TwoShotIsQuicker(even * 0.999, 8));
  EXPECT_TRUE(TwoShotIsQuicker(even * 1.001, 8));
}

TEST(DeviceSteps, AreTheLeastWholeUnits) {
  for (uint64_t unit : {1u, 4u, 4096u}) {
    for (uint64_t bytes : {0u, 1u, 2u, 4u, 5u, 4095u, 4096u, 4097u, 8192u}) {
      const uint64_t units = InUnits(bytes, unit);
      EXPECT_EQ(units % unit, 0u);
      EXPECT_GE(units, bytes);
      EXPECT_LT(units, bytes + unit);
    }
  }
  EXPECT_EQ(InDeviceSteps(1), kDeviceStep);
  EXPECT_EQ(InDeviceSteps(kDeviceStep + 1), 2 * kDeviceStep);
}

}  // namespace
}  // namespace rondo
