// Runs that are recorded allocate nothing, the first included.
#include <gtest/gtest.h>

#include "drivers/flight/flight_driver.h"
#include "runtime/testing/allocation_counter.h"
#include "tests/runtime/drivers.h"
#include "tests/runtime/open_tiny.h"
#include "tests/temporary_folder.h"

namespace rondo {
namespace {

class FlightAllocationTest : public testing::TestWithParam<const char*> {};

TEST_P(FlightAllocationTest, RecordedRunsAllocateNothing) {
  const TemporaryFolder folder;
  const DriverHandle driver = MakeDriver(GetParam());
  ASSERT_NE(driver, nullptr);
  Result<flight::FlightDriver*> made = flight::FlightDriver::Create(driver.get(), folder.File("flight"));
  ASSERT_TRUE(made.ok()) << made.status().message();
  const std::unique_ptr<flight::FlightDriver> flight(*made);
  const TinyPlan tiny(/*split=*/true);
  Plan plan;
  Runtime runtime;
  const Status opened = OpenTiny(tiny, flight.get(), &plan, &runtime);
  ASSERT_TRUE(opened.ok()) << opened.message();
  Session session = MakeSession(runtime, plan);
  ResetAllocationCount();
  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) status = RunAddOnce(session);
  EXPECT_EQ(AllocationCount(), 0u);
  EXPECT_TRUE(status.ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Drivers, FlightAllocationTest, testing::ValuesIn(DriverNames()));

}  // namespace
}  // namespace rondo
