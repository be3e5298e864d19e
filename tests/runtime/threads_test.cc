// Eight threads with four sessions each, three plans and one runtime. While plans are loaded and unloaded,
// every result equals a single thread's to the bit.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/session.h"
#include "tests/how_many.h"
#include "tests/runtime/drivers.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {
namespace {

constexpr int kThreads = 8, kSessions = 4, kPlans = 3;

// The plans differ in partitions and in weights: two are mapped, one is synthetic.
struct Plans {
  TinyPlan tiny[kPlans] = {TinyPlan(false, false), TinyPlan(true, false), TinyPlan(false, true)};
  Plans() { tiny[1].weights[3] = 1.25f; }
  Result<Plan> Open(int i) const { return Plan::FromData(tiny[i].data, tiny[i].weight_bytes()); }
};

// The outputs of one run of a session, including state, so that a lost or repeated run shows.
struct Outcome {
  float y[4] = {};
  float total[4] = {};
  float z = 0;
};

bool RunOnce(Session* session, int run, Outcome* out) {
  const float scale = 0.1f * static_cast<float>(run % 7 + 1);
  const float x[4] = {scale, scale * 3, scale / 7, -scale};
  const int64_t index = run % 4;
  const Input add[] = {{"x", kNone, DType::kF32, {4}, x, 16}};
  const Output added[] = {{"y", kNone, DType::kF32, out->y, 16},
                          {"total_out", kNone, DType::kF32, out->total, 16}};
  const Input pick[] = {{"index", kNone, DType::kI64, {1}, &index, 8}};
  const Output picked[] = {{"z", kNone, DType::kF32, &out->z, 4}};
  if (run % 3 != 0) {
    return session->Run(TinyPlan::kAdd, add, added).ok() && session->Run(TinyPlan::kPick, pick, picked).ok();
  }
  if (!session->RunAsync(TinyPlan::kAdd, add, added, Completion()).ok()) return false;
  EXPECT_TRUE(session->Wait().ok());
  return session->status().ok() && session->Run(TinyPlan::kPick, pick, picked).ok();
}

// The number of runs between two reloads of a session, which is the length of its state's history.
constexpr int kHistory = 25;

// One thread: makes `runs` runs over its sessions and compares the results with `expected`.
struct Worker {
  const Plans& plans;
  const Runtime& runtime;
  const std::vector<Outcome>* expected = nullptr;  // by plan, then run of the history
  std::atomic<int>* wrong = nullptr;

  bool Renew(Session* session, int plan) const {
    *session = Session();
    Result<Plan> opened = plans.Open(plan);
    if (!opened.ok()) return false;
    Result<Session> made =
        Session::Create(runtime, *opened);  // the Plan ends here; the session keeps it loaded
    if (!made.ok()) return false;
    *session = made.Take();
    return true;
  }
  void Work(int thread, int runs) const {
    Session sessions[kSessions];
    for (int run = 0; run < runs; ++run) {
      const int s = run % kSessions, step = run / kSessions % kHistory;
      const int plan = (thread + s + run / (kSessions * kHistory)) % kPlans;
      if (step == 0 && !Renew(&sessions[s], plan)) return void(++*wrong);
      Outcome got;
      if (!RunOnce(&sessions[s], step, &got)) return void(++*wrong);
      if (std::memcmp(&got, &(*expected)[plan * kHistory + step], sizeof(got)) != 0) ++*wrong;
    }
  }
};

class ThreadsTest : public testing::TestWithParam<const char*> {};

TEST_P(ThreadsTest, ManySessionsOfManyPlansGiveTheResultsOfOneThread) {
  const Plans plans;
  DriverHandle driver = MakeDriver(GetParam());
  ASSERT_NE(driver, nullptr);
  RuntimeOptions options;
  options.async_workers = 3;
  Result<Runtime> runtime = Runtime::Create(driver.get(), options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  std::atomic<int> wrong{0};

  std::vector<Outcome> expected(kPlans * kHistory);
  Worker worker{plans, *runtime, &expected, &wrong};
  for (int plan = 0; plan < kPlans; ++plan) {
    Session session;
    ASSERT_TRUE(worker.Renew(&session, plan));
    for (int step = 0; step < kHistory; ++step) {
      ASSERT_TRUE(RunOnce(&session, step, &expected[plan * kHistory + step]));
    }
  }
  ASSERT_NE(std::memcmp(&expected[0], &expected[kHistory], sizeof(Outcome)), 0) << "the plans must differ";
  const uint64_t single = runtime->metrics().runs;

  const int runs = HowMany("RONDO_THREAD_RUNS", 1600) / kThreads;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { worker.Work(t, runs); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const MetricsData data = runtime->metrics();
  EXPECT_EQ(data.runs - single, static_cast<uint64_t>(runs) * kThreads * 2);
  EXPECT_EQ(data.sessions, 0u);
  EXPECT_EQ(data.plans, 0u) << "every plan has gone with its last session";
  EXPECT_EQ(data.weight_bytes + data.arena_bytes + data.state_bytes, 0u);
}

// One opened plan is shared, and loaded once, however many threads make sessions at the same time.
TEST_P(ThreadsTest, SessionsMadeAtOnceShareOnePlansWeights) {
  const Plans plans;
  DriverHandle driver = MakeDriver(GetParam());
  Result<Runtime> runtime = Runtime::Create(driver.get());
  Result<Plan> plan = plans.Open(2);
  ASSERT_TRUE(runtime.ok() && plan.ok());
  std::vector<Session> sessions(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Result<Session> made = Session::Create(*runtime, *plan);
      if (made.ok()) sessions[t] = made.Take();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Session& session : sessions) {
    ASSERT_TRUE(session.valid());
    EXPECT_EQ(session.BufferAddress(1), sessions[0].BufferAddress(1));
  }
  EXPECT_EQ(runtime->metrics().plans, 1u);
  EXPECT_EQ(runtime->weight_bytes(), 16u);
}

INSTANTIATE_TEST_SUITE_P(Drivers, ThreadsTest, testing::ValuesIn(DriverNames()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rondo
