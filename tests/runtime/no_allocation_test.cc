// No Run allocates, not even the first: Create has made everything.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "runtime/session.h"
#include "runtime/testing/allocation_counter.h"
#include "runtime/testing/allocation_watch.h"
#include "tests/runtime/drivers.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {
namespace {

TEST(AllocationCounter, SeesWhatTheProcessAllocates) {
  ResetAllocationCount();
  void* volatile block = std::malloc(10);  // volatile: not to be optimised away
  std::free(block);
  int* volatile number = new int;
  delete number;
  EXPECT_GE(AllocationCount(), 4u);
}

std::string FirstLineAfter(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  if (at == std::string::npos) return "";
  const size_t begin = at + words.size();
  return text.substr(begin, text.find('\n', begin) - begin);
}

// A function without an exported name is reported by its file's name.
TEST(AllocationWatch, NamesWhereTheFirstCallsComeFrom) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").filename();
  AllocationWatch watch;
  void* volatile block = std::malloc(10);
  std::free(block);
  watch.Stop();
  EXPECT_EQ(watch.count(), 2u);
  const std::string text = watch.Callers();
  for (const char* call : {"call 1, from\n", "call 2, from\n"})
    EXPECT_NE(FirstLineAfter(text, call).find(program), std::string::npos) << text;
  EXPECT_EQ(text.find("call 3"), std::string::npos) << text;
}

class NoAllocationTest : public testing::TestWithParam<const char*> {};

TEST_P(NoAllocationTest, InAnyRunTheFirstIncluded) {
  TinyPlan tiny(/*split=*/true);
  DriverHandle driver = MakeDriver(GetParam());
  ASSERT_NE(driver, nullptr);
  Result<Plan> plan = Plan::FromData(tiny.data, tiny.weight_bytes());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  RuntimeOptions options;
  options.async_workers = 1;
  Result<Runtime> runtime = Runtime::Create(driver.get(), options);
  ASSERT_TRUE(runtime.ok());
  Result<Session> session = Session::Create(*runtime, *plan);
  ASSERT_TRUE(session.ok()) << session.status().message();
  Result<Session> prefix = Session::Create(*runtime, *plan);
  ASSERT_TRUE(prefix.ok()) << prefix.status().message();
  const float x[4] = {1, 2, 3, 4};
  float y[4] = {}, z = 0, now[4] = {};
  const int64_t index = 1;
  const Input add_inputs[] = {{"x", kNone, DType::kF32, {4}, x, 16}};
  const Output add_outputs[] = {{"y", kNone, DType::kF32, y, 16}};
  const Input pick_inputs[] = {{"index", kNone, DType::kI64, {1}, &index, 8}};
  const Output pick_outputs[] = {{"z", kNone, DType::kF32, &z, 4}};
  const Output peek_outputs[] = {{"now", kNone, DType::kF32, now, 16}};
  for (int round = 0; round < 3; ++round) {
    ResetAllocationCount();
    bool good = session->Run(TinyPlan::kAdd, add_inputs, add_outputs).ok();
    uint64_t in_add = AllocationCount();
    good = good && session->Run(TinyPlan::kPick, pick_inputs, pick_outputs).ok();
    uint64_t in_pick = AllocationCount();
    good = good && session->Run(TinyPlan::kPeek, {}, peek_outputs).ok();
    uint64_t in_peek = AllocationCount();
    good = good && session->ReadState("total", now, 16).ok() && session->ResetState().ok() &&
           session->CopyStatesFrom(*prefix).ok();
    uint64_t in_state = AllocationCount();
    std::atomic<int> told{0};
    Completion completion{
        [](const Completion& self, const Status&) { static_cast<std::atomic<int>*>(self.user)->store(1); },
        &told};
    good = good && session->RunAsync(TinyPlan::kAdd, add_inputs, add_outputs, completion).ok();
    while (good && told.load() == 0) std::this_thread::yield();
    uint64_t in_async = AllocationCount();
    char text[65536];
    good = good && runtime->WriteMetrics(text, sizeof(text)) < sizeof(text);
    uint64_t in_metrics = AllocationCount();
    EXPECT_TRUE(good);
    EXPECT_EQ(in_add, 0u) << "round " << round;
    EXPECT_EQ(in_pick, in_add) << "round " << round;
    EXPECT_EQ(in_peek, in_pick) << "round " << round;
    EXPECT_EQ(in_state, in_peek) << "round " << round;
    EXPECT_EQ(in_async, in_state) << "round " << round;
    EXPECT_EQ(in_metrics, in_async) << "round " << round;
  }
  EXPECT_EQ(y[3], 16);
  EXPECT_EQ(z, 2);
}

TEST_P(NoAllocationTest, InTenThousandRunsInOtherDeviceMemoryEach) {
  TinyPlan tiny(/*split=*/true);
  DriverHandle driver = MakeDriver(GetParam());
  ASSERT_NE(driver, nullptr);
  Result<Plan> plan = Plan::FromData(tiny.data, tiny.weight_bytes());
  Result<Runtime> runtime = Runtime::Create(driver.get());
  Result<Session> session = Session::Create(*runtime, *plan);
  ASSERT_TRUE(session.ok()) << session.status().message();
  alignas(64) float x[3][16] = {}, y[2][16] = {};
  ResetAllocationCount();
  bool good = true;
  for (int run = 0; run < 10000; ++run) {
    x[run % 3][0] = static_cast<float>(run);
    // One of the three is copied because of its alignment.
    const Input input = {"x", kNone, DType::kF32, {4}, x[run % 3] + (run % 3 == 2), 16, MemoryKind::kDevice};
    const Output output = {"y", kNone, DType::kF32, y[run % 2], 16, MemoryKind::kDevice};
    good = good && session->Run(TinyPlan::kAdd, {&input, 1}, {&output, 1}).ok() &&
           (run % 3 == 2 || y[run % 2][0] == static_cast<float>(run));
  }
  EXPECT_EQ(AllocationCount(), 0u);
  EXPECT_TRUE(good);
}

INSTANTIATE_TEST_SUITE_P(Drivers, NoAllocationTest, testing::ValuesIn(DriverNames()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rondo
