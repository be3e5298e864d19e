// A runtime's reports for a service: numbers, Prometheus text, and the log.
#include <gtest/gtest.h>

#include <clocale>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/session.h"
#include "tests/runtime/fake_driver.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {
namespace {

struct Log {
  std::vector<std::pair<LogLevel, std::string>> lines;
  LogHook Hook(LogLevel least) {
    return {[](void* user, LogLevel level, const char* text) {
              static_cast<Log*>(user)->lines.push_back({level, text});
            },
            this, least};
  }
  int Count(LogLevel level, const std::string& part) const {
    int count = 0;
    for (const auto& line : lines)
      count += line.first == level && line.second.find(part) != std::string::npos;
    return count;
  }
};

class MetricsTest : public testing::Test {
 protected:
  void SetUp() override {
    PlanOptions plan_options;
    plan_options.log = log_.Hook(LogLevel::kDebug);
    plan_options.name = "tiny";
    Result<Plan> plan = Plan::FromData(tiny_.data, tiny_.weight_bytes(), plan_options);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    plan_ = plan.Take();
    RuntimeOptions options;
    options.log = log_.Hook(LogLevel::kDebug);
    Result<Runtime> runtime = Runtime::Create(&driver_, options);
    ASSERT_TRUE(runtime.ok());
    runtime_ = runtime.Take();
  }
  Session MakeSession() {
    Result<Session> session = Session::Create(runtime_, plan_);
    EXPECT_TRUE(session.ok());
    return session.Take();
  }
  Status RunAdd(Session& session) {
    const float x[4] = {1, 1, 1, 1};
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x, 16}};
    const Output outputs[] = {{"y", kNone, DType::kF32, y_, 16}};
    return session.Run(TinyPlan::kAdd, inputs, outputs);
  }
  std::string Text() {
    std::string text(runtime_.WriteMetrics(nullptr, 0) + 1, '?');
    EXPECT_EQ(runtime_.WriteMetrics(text.data(), text.size()), text.size() - 1);
    EXPECT_EQ(text.back(), '\0');
    text.pop_back();
    return text;
  }
  bool Says(const std::string& part) { return Text().find(part) != std::string::npos; }
  TinyPlan tiny_;
  FakeDriver driver_;
  Log log_;
  Plan plan_;
  Runtime runtime_;
  float y_[4] = {};
};

TEST_F(MetricsTest, RunsErrorsAndBytesAreCounted) {
  driver_.controls.host_memory = false;
  Session session = MakeSession();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(RunAdd(session).ok());
  EXPECT_FALSE(session.Run(TinyPlan::kAdd, {}, {}).ok());
  driver_.controls.fail = "LaunchGraph";
  EXPECT_FALSE(RunAdd(session).ok());
  MetricsData data = runtime_.metrics();
  EXPECT_EQ(data.runs, 6u) << "a run that failed has ended, a call that was refused never began";
  EXPECT_EQ(data.run_time.count, 6u);
  EXPECT_GT(data.run_time.sum_nanoseconds, 0u);
  EXPECT_EQ(data.queue_wait.count, 0u);
  EXPECT_EQ(data.errors[static_cast<int>(Code::kInvalidArgument)], 1u);
  EXPECT_EQ(data.errors[static_cast<int>(Code::kInternal)], 1u);
  EXPECT_EQ(data.input_bytes, 6u * 16);
  EXPECT_EQ(data.output_bytes, 5u * 16);
  EXPECT_EQ(data.sessions, 1u);
  EXPECT_EQ(data.plans, 1u);
  EXPECT_EQ(data.weight_bytes, 16u);
  EXPECT_EQ(data.arena_bytes, 4096u);
  EXPECT_EQ(data.state_bytes, 4096u);
}

TEST_F(MetricsTest, GaugesGoBackToZero) {
  driver_.controls.host_memory = false;
  { Session session = MakeSession(); }
  MetricsData data = runtime_.metrics();
  EXPECT_EQ(data.sessions + data.plans + data.weight_bytes + data.arena_bytes + data.state_bytes, 0u);
}

TEST_F(MetricsTest, StagingOfEverySessionIsCounted) {
  driver_.controls.stages = true;
  Session first = MakeSession();
  const CopyNeeds& needs = driver_.controls.needs;
  EXPECT_GE(needs.in, 16u);
  EXPECT_EQ(needs.in % kCopyAlignment + needs.out % kCopyAlignment, 0u);
  EXPECT_GE(needs.outputs, 1u);
  EXPECT_EQ(runtime_.metrics().staging_bytes, needs.in + needs.out);
  {
    Session second = MakeSession();
    EXPECT_EQ(runtime_.metrics().staging_bytes, 2 * (needs.in + needs.out));
    EXPECT_NE(Text().find("\nrondo_staging_bytes " + std::to_string(2 * (needs.in + needs.out)) + "\n"),
              std::string::npos);
  }
  first = Session();
  EXPECT_EQ(runtime_.metrics().staging_bytes, 0u);
  driver_.controls.fail = "ReserveStaging";
  EXPECT_FALSE(Session::Create(runtime_, plan_).ok());
  EXPECT_EQ(runtime_.metrics().staging_bytes, 0u);
}

TEST_F(MetricsTest, EveryDurationHasItsBucket) {
  Histogram histogram;
  for (uint64_t ns :
       {uint64_t{0}, uint64_t{50'000}, uint64_t{50'001}, uint64_t{10'000'000'000}, ~uint64_t{0} / 4}) {
    histogram.Add(ns);
  }
  HistogramData data;
  histogram.AddTo(&data);
  EXPECT_EQ(data.count, 5u);
  EXPECT_EQ(data.buckets[0], 2u);
  EXPECT_EQ(data.buckets[1], 1u);
  EXPECT_EQ(data.buckets[kHistogramBuckets - 2], 1u);
  EXPECT_EQ(data.buckets[kHistogramBuckets - 1], 1u);
}

// Every line is a comment or `name{labels} number`; histograms are cumulative and end at +Inf.
TEST_F(MetricsTest, ThePrometheusTextIsWellFormed) {
  Session session = MakeSession();
  ASSERT_TRUE(RunAdd(session).ok());
  std::istringstream text(Text());
  uint64_t last = 0;
  int buckets = 0, samples = 0;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("# HELP rondo_", 0) == 0 || line.rfind("# TYPE rondo_", 0) == 0) continue;
    ASSERT_EQ(line.rfind("rondo_", 0), 0u) << line;
    const size_t space = line.rfind(' ');
    ASSERT_NE(space, std::string::npos) << line;
    ASSERT_EQ(line.find_first_not_of("0123456789.", space + 1), std::string::npos) << line;
    ++samples;
    if (line.find(",le=\"") == std::string::npos) {
      last = 0;
      continue;
    }
    const uint64_t value = std::stoull(line.substr(space + 1));
    EXPECT_GE(value, last) << line;
    last = value;
    ++buckets;
  }
  EXPECT_EQ(buckets, static_cast<int>(kHistogramBuckets))
      << "of the run times of one program, the only one that ran";
  EXPECT_GT(samples, 24);
  const std::string add = "{plan=\"tiny\",program=\"add\"";
  EXPECT_TRUE(Says("rondo_run_seconds_bucket" + add + ",le=\"0.00005\"} ")) << Text();
  EXPECT_TRUE(Says("rondo_run_seconds_bucket" + add + ",le=\"+Inf\"} 1\n"));
  EXPECT_TRUE(Says("rondo_run_seconds_count" + add + "} 1\n"));
  EXPECT_TRUE(Says("rondo_runs_total" + add + "} 1\n"));
}

TEST_F(MetricsTest, ATextThatDoesNotFitIsCutAndItsLengthTold) {
  char small[10];
  std::fill_n(small, sizeof(small), 'x');
  EXPECT_GT(runtime_.WriteMetrics(small, sizeof(small)), sizeof(small));
  EXPECT_EQ(std::string(small), "# HELP ro");
}

TEST_F(MetricsTest, RunsAreCountedByPlanAndProgram) {
  const std::string wide = "a \"plan\"\n" + std::string(300, 'x') + "\xc3\xa9";
  PlanOptions options;
  options.name = wide;
  Result<Plan> other = Plan::FromData(tiny_.data, tiny_.weight_bytes(), options);
  ASSERT_TRUE(other.ok());
  Session first = MakeSession(), again = MakeSession();
  Result<Session> second = Session::Create(runtime_, *other);
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(RunAdd(first).ok());
  ASSERT_TRUE(RunAdd(again).ok());
  ASSERT_TRUE(RunAdd(*second).ok());
  EXPECT_FALSE(second->Run(TinyPlan::kPick, {}, {}).ok());
  EXPECT_FALSE(second->Run(17, {}, {}).ok());
  const std::string label = "plan=\"a \\\"plan\\\"?" + std::string(119, 'x') + "\"";
  EXPECT_TRUE(Says("rondo_runs_total{plan=\"tiny\",program=\"add\"} 2\n")) << Text();
  EXPECT_TRUE(Says("rondo_runs_total{" + label + ",program=\"add\"} 1\n")) << Text();
  EXPECT_TRUE(Says("rondo_run_errors_total{" + label + ",program=\"pick\",code=\"invalid argument\"} 1\n"))
      << Text();
  EXPECT_TRUE(Says("rondo_run_errors_total{plan=\"\",program=\"\",code=\"invalid argument\"} 1\n")) << Text();
  EXPECT_TRUE(Says("rondo_copied_bytes_total{plan=\"tiny\",program=\"add\",direction=\"in\"} 32\n"))
      << Text();
  EXPECT_EQ(runtime_.metrics().runs, 3u);
  EXPECT_EQ(runtime_.metrics().run_time.count, 3u);
  EXPECT_EQ(runtime_.metrics().errors[static_cast<int>(Code::kInvalidArgument)], 2u);
}

TEST_F(MetricsTest, TheLogTellsWhatHappensWithItsLevel) {
  Session session = MakeSession();
  EXPECT_EQ(log_.Count(LogLevel::kInfo, "plan opened: 3 programs"), 1);
  EXPECT_EQ(log_.Count(LogLevel::kDebug, "runtime created"), 1);
  EXPECT_EQ(log_.Count(LogLevel::kInfo, "plan loaded"), 1);
  EXPECT_EQ(log_.Count(LogLevel::kDebug, "session created"), 1);
  EXPECT_FALSE(session.Run(TinyPlan::kAdd, {}, {}).ok());
  EXPECT_EQ(log_.Count(LogLevel::kWarning, "\"x\""), 1) << "the caller's mistake is a warning";
  driver_.controls.fail = "LaunchGraph";
  EXPECT_FALSE(RunAdd(session).ok());
  EXPECT_EQ(log_.Count(LogLevel::kError, "LaunchGraph failed"), 1) << "what ends a session is an error";
  session = Session();
  EXPECT_EQ(log_.Count(LogLevel::kDebug, "session destroyed"), 1);
  EXPECT_EQ(log_.Count(LogLevel::kInfo, "plan unloaded"), 1);
}

TEST_F(MetricsTest, LowerLevelsAreLeftOut) {
  Log quiet;
  RuntimeOptions options;
  options.log = quiet.Hook(LogLevel::kError);
  Result<Runtime> runtime = Runtime::Create(&driver_, options);
  Result<Session> session = Session::Create(*runtime, plan_);
  ASSERT_TRUE(session.ok());
  EXPECT_FALSE(session->Run(TinyPlan::kAdd, {}, {}).ok());
  EXPECT_TRUE(quiet.lines.empty());
}

}  // namespace
}  // namespace rondo
