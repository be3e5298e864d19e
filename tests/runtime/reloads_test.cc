// Metrics of plans that are loaded and unloaded: their series are removed, the sums stay, and nothing grows.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "runtime/session.h"
#include "tests/runtime/fake_driver.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {
namespace {

// Host memory that counts the bytes in use.
struct CountedMemory {
  HostAllocator allocator = {[](void* self, size_t bytes, size_t alignment) {
                               static_cast<CountedMemory*>(self)->bytes += bytes;
                               const size_t step = alignment < sizeof(void*) ? sizeof(void*) : alignment;
                               return std::aligned_alloc(step, (bytes + step - 1) / step * step);
                             },
                             [](void* self, void* block, size_t bytes) {
                               static_cast<CountedMemory*>(self)->bytes -= bytes;
                               std::free(block);
                             },
                             this};
  std::atomic<size_t> bytes{0};
};

class Reloads : public testing::TestWithParam<bool> {
 protected:
  Reloads() {
    RuntimeOptions options;
    options.allocator = &memory_.allocator;
    options.keep_plan_totals = GetParam();
    runtime_ = Runtime::Create(&driver_, options).Take();
  }
  Session Open(const std::string& name) {
    PlanOptions options;
    options.name = name;
    options.allocator = &memory_.allocator;
    Result<Plan> plan = Plan::FromData(tiny_.data, tiny_.weight_bytes(), options);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    Result<Session> session = Session::Create(runtime_, *plan);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return session.Take();
  }
  static void RunOnce(Session& session) {
    float x[4] = {1, 1, 1, 1}, y[4] = {};
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x, 16}};
    const Output outputs[] = {{"y", kNone, DType::kF32, y, 16}};
    EXPECT_TRUE(session.Run(TinyPlan::kAdd, inputs, outputs).ok());
  }
  static void FailOnce(Session& session) { EXPECT_FALSE(session.Run(TinyPlan::kPick, {}, {}).ok()); }
  std::string Page() const {
    std::string text(runtime_.WriteMetrics(nullptr, 0) + 1, '?');
    runtime_.WriteMetrics(text.data(), text.size());
    return text;
  }
  bool PageHas(const std::string& part) const { return Page().find(part) != std::string::npos; }

  TinyPlan tiny_;
  FakeDriver driver_;
  CountedMemory memory_;
  Runtime runtime_;
};

class ReloadsForgotten : public Reloads {};
class ReloadsKept : public Reloads {};
INSTANTIATE_TEST_SUITE_P(ByDefault, ReloadsForgotten, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(WithTotalsKept, ReloadsKept, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(Either, Reloads, testing::Bool());

TEST_P(Reloads, NothingIsSaidOfWhatWasNeverCounted) {
  Session session = Open("v1");
  EXPECT_FALSE(PageHas("{plan=")) << Page();
  RunOnce(session);
  EXPECT_TRUE(PageHas("rondo_runs_total{plan=\"v1\",program=\"add\"} 1\n"));
  EXPECT_TRUE(PageHas("rondo_run_seconds_count{plan=\"v1\",program=\"add\"} 1\n"));
  EXPECT_FALSE(PageHas("rondo_run_errors_total{")) << Page();
  EXPECT_FALSE(PageHas("rondo_queue_seconds_bucket{")) << Page();
  EXPECT_FALSE(PageHas("program=\"pick\"")) << Page();
  FailOnce(session);
  EXPECT_TRUE(PageHas("rondo_run_errors_total{plan=\"v1\",program=\"pick\",code=\"invalid argument\"} 1\n"));
  EXPECT_FALSE(PageHas("} 0\nrondo_run_errors_total")) << Page();
}

TEST_P(Reloads, TheSumsOfAllPlansStay) {
  for (int i = 0; i < 5; ++i) {
    Session session = Open("v" + std::to_string(i));
    RunOnce(session);
    FailOnce(session);
  }
  const MetricsData data = runtime_.metrics();
  EXPECT_EQ(data.runs, 5u);
  EXPECT_EQ(data.run_time.count, 5u);
  EXPECT_GT(data.run_time.sum_nanoseconds, 0u);
  EXPECT_EQ(data.errors[static_cast<int>(Code::kInvalidArgument)], 5u);
  EXPECT_EQ(data.plans + data.sessions, 0u);
}

TEST_P(ReloadsForgotten, SeriesGoWithTheLastSession) {
  Session first = Open("v1"), other = Open("v2");
  {
    Session second = Open("v1");  // the same name, opened a second time
    RunOnce(first);
    RunOnce(second);
    RunOnce(other);
    EXPECT_TRUE(PageHas("rondo_runs_total{plan=\"v1\",program=\"add\"} 2\n")) << Page();
  }
  EXPECT_TRUE(PageHas("rondo_runs_total{plan=\"v1\",program=\"add\"} 2\n"))
      << "a plan of that name is there still";
  first = Session();
  EXPECT_FALSE(PageHas("plan=\"v1\"")) << Page();
  EXPECT_TRUE(PageHas("rondo_runs_total{plan=\"v2\",program=\"add\"} 1\n")) << Page();
  first = Open("v1");
  RunOnce(first);
  EXPECT_TRUE(PageHas("rondo_runs_total{plan=\"v1\",program=\"add\"} 1\n")) << "it begins anew";
  EXPECT_EQ(runtime_.metrics().runs, 4u);
}

TEST_P(ReloadsKept, CountersOfAPlanOfTheSameNameGoOn) {
  for (int i = 1; i <= 3; ++i) {
    {
      Session session = Open("v1");
      RunOnce(session);
    }
    EXPECT_TRUE(PageHas("rondo_runs_total{plan=\"v1\",program=\"add\"} " + std::to_string(i) + "\n"))
        << Page();
  }
  EXPECT_EQ(runtime_.metrics().runs, 3u);
}

// Two hundred versions of a plan, or one name two hundred times if totals are kept.
TEST_P(Reloads, TextAndMemoryStayFlat) {
  size_t text = 0, bytes = 0;
  for (int i = 0; i < 200; ++i) {
    {
      Session session = Open(GetParam() ? "v100" : "v" + std::to_string(100 + i));
      RunOnce(session);
      FailOnce(session);
      EXPECT_LT(Page().size(), 8000u);
    }
    if (i == 0) text = Page().size(), bytes = memory_.bytes;
    // Kept counts get more digits.
    ASSERT_LE(Page().size(), text + (GetParam() ? 100 : 0)) << "after " << i + 1 << " reloads";
    ASSERT_EQ(memory_.bytes, bytes) << "after " << i + 1 << " reloads";
  }
  EXPECT_EQ(runtime_.metrics().runs, 200u);
  runtime_ = Runtime();
  EXPECT_EQ(memory_.bytes, 0u);
}

TEST_P(Reloads, ScrapingAndReloadingGoOnAtOnce) {
  std::atomic<bool> ended{false};
  std::thread scraper([&] {
    uint64_t runs = 0;
    char text[16 << 10];
    while (!ended) {
      EXPECT_LT(runtime_.WriteMetrics(text, sizeof(text)), sizeof(text));
      const uint64_t now = runtime_.metrics().runs;
      EXPECT_GE(now, runs) << "a sum went back";
      runs = now;
    }
  });
  std::thread reloader([&] {
    for (int i = 0; i < 200; ++i) {
      Session session = Open("b" + std::to_string(i % 3));
      RunOnce(session);
    }
  });
  for (int i = 0; i < 200; ++i) {
    Session session = Open("b" + std::to_string(i % 2));
    RunOnce(session);
  }
  reloader.join();
  ended = true;
  scraper.join();
  EXPECT_EQ(runtime_.metrics().runs, 400u);
}

}  // namespace
}  // namespace rondo
