// Runs on several devices: launch threads, sessions side by side, delays, other orders.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

#include "tests/collectives/mesh.h"
#include "tests/how_many.h"

namespace rondo {
namespace {

bool Contains(const Status& status, const std::string& text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

class RunTest : public testing::TestWithParam<uint32_t> {};

TEST_P(RunTest, LayersGiveTheReferencesBitsOnEveryDevice) {
  const Mesh mesh(MeshOptions(GetParam()));
  for (bool split : {false, true}) {
    Layers layers(GetParam(), 3, 37, split);
    Session session = mesh.MakeSession(layers.plan);
    ASSERT_TRUE(session.valid());
    for (int run = 0; run < 3; ++run) layers.ExpectRight(&session);
    RunOptions stepwise;
    stepwise.stepwise = true;
    layers.ExpectRight(&session, stepwise);
    layers.ExpectRight(&session);
  }
}

TEST_P(RunTest, RandomDelaysAndOrdersChangeNothing) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    HostOptions options = MeshOptions(GetParam());
    options.faults.seed = seed;
    options.faults.most_delay_us = seed % 2 != 0 ? 100 : 0;
    options.faults.reorder = true;
    const Mesh mesh(options);
    Layers layers(GetParam(), 3, 5, seed % 3 == 0);
    Session session = mesh.MakeSession(layers.plan);
    ASSERT_TRUE(session.valid());
    for (int run = 0; run < 10; ++run) layers.ExpectRight(&session);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RunTest, testing::Values(2u, 4u, 8u),
                         [](const auto& info) { return std::to_string(info.param); });

// Runs each of `sessions` `runs` times, each from its own thread. Returns the number of wrong results.
int RunSideBySide(const Mesh& mesh, const std::vector<Layers*>& sessions, int runs) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (Layers* layers : sessions) {
    threads.emplace_back([&mesh, &wrong, layers, runs] {
      Result<Session> session = Session::Create(mesh.runtime(), layers->plan);
      if (!session.ok()) return void(++wrong);
      for (int run = 0; run < runs; ++run) {
        bool right = false;
        Status status = layers->Run(&*session, &right);
        if (!status.ok() || !right) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return wrong;
}

// The same plan twice, and plans for fewer devices whose communicators have the same numbers.
TEST(SideBySideTest, SessionsAreNeverPairedWithOneAnother) {
  for (uint32_t delay : {0u, 50u}) {
    HostOptions options = MeshOptions(4);
    options.faults.seed = delay;
    options.faults.most_delay_us = delay;
    options.faults.reorder = delay != 0;
    const Mesh mesh(options);
    Layers a(4, 2, 7, false, 1), b(4, 2, 7, false, 2), c(2, 3, 7, true, 3), d(3, 1, 7, false, 4);
    EXPECT_EQ(RunSideBySide(mesh, {&a, &b, &c, &d}, 40), 0);
  }
}

// Two runtimes on one driver have separate launch threads, and so no common order.
TEST(SideBySideTest, TwoRuntimesMayShareOneDriver) {
  HostOptions options = MeshOptions(2);
  options.faults.most_delay_us = 50;
  Mesh mesh(options);
  Result<Runtime> second = Runtime::Create(mesh.driver());
  ASSERT_TRUE(second.ok());
  Layers a(2, 2, 7, false, 1), b(2, 2, 7, false, 2);
  std::atomic<int> wrong{0};
  std::thread other([&] {
    Result<Session> session = Session::Create(*second, b.plan);
    if (!session.ok()) return void(++wrong);
    for (int run = 0; run < 50; ++run) {
      bool right = false;
      if (!b.Run(&*session, &right).ok() || !right) ++wrong;
    }
  });
  EXPECT_EQ(RunSideBySide(mesh, {&a}, 50), 0);
  other.join();
  EXPECT_EQ(wrong, 0);
}

TEST(SideBySideTest, ManyRunsWithRandomDelays) {
  HostOptions options = MeshOptions(2);
  options.faults.seed = 3;
  options.faults.most_delay_us = 20;
  options.faults.reorder = true;
  const Mesh mesh(options);
  Layers a(2, 1, 2, false, 1), b(2, 1, 2, false, 2);
  EXPECT_EQ(RunSideBySide(mesh, {&a, &b}, HowMany("RONDO_MESH_RUNS", 1000) / 2), 0);
}

TEST(StepwiseTest, StepsOfADeviceComeInOrderAndRunsOfOthersDoNotInterfere) {
  const Mesh mesh(MeshOptions(2));
  Layers layers(2, 2, 4), other(2, 2, 4, false, 9);
  Session session = mesh.MakeSession(layers.plan);
  struct Seen {
    std::vector<uint32_t> steps;
    std::thread::id thread;
  } seen{{}, std::this_thread::get_id()};
  RunOptions options;
  options.stepwise = true;
  options.user = &seen;
  options.on_step = [](void* user, uint32_t, uint32_t step, StepPhase phase) {
    auto* to = static_cast<Seen*>(user);
    EXPECT_EQ(to->thread, std::this_thread::get_id());
    if (phase == StepPhase::kAfter) to->steps.push_back(step);
    return Status::Ok();
  };
  std::thread meanwhile([&] { EXPECT_EQ(RunSideBySide(mesh, {&other}, 20), 0); });
  for (int run = 0; run < 10; ++run) {
    seen.steps.clear();
    layers.ExpectRight(&session, options);
    ASSERT_EQ(seen.steps.size(), layers.plan.data().programs[0].steps.size());
    uint32_t last[2] = {};
    for (uint32_t step : seen.steps) {
      uint32_t& before = last[layers.plan.data().programs[0].steps[step].device];
      EXPECT_LE(before, step);
      before = step;
    }
  }
  meanwhile.join();
}

// Otherwise another session's run would start its collectives between this one's, in a different order on
// each device.
TEST(StepwiseTest, KeepsTheDevicesToItself) {
  RuntimeOptions runtime_options;
  runtime_options.async_workers = 1;
  const Mesh mesh(MeshOptions(2), runtime_options);
  Layers layers(2, 2, 4), other(2, 2, 4, false, 9);
  Session session = mesh.MakeSession(layers.plan), second = mesh.MakeSession(other.plan);
  struct Both {
    Session* second;
    Layers* other;
    int seen;
  } both{&second, &other, 0};
  RunOptions options;
  options.stepwise = true;
  options.user = &both;
  options.on_step = [](void* user, uint32_t, uint32_t, StepPhase) {
    auto* to = static_cast<Both*>(user);
    if (to->seen++ != 0) return Status::Ok();
    EXPECT_TRUE(to->second->RunAsync(0, to->other->inputs, to->other->outputs, Completion()).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    EXPECT_FALSE(to->second->idle()) << "it ran between the steps of another";
    return Status::Ok();
  };
  layers.ExpectRight(&session, options);
  EXPECT_TRUE(second.Wait().ok());
  EXPECT_TRUE(second.status().ok());
  EXPECT_EQ(other.out[0], other.expected[0]);
}

TEST(StepwiseTest, AnObserverMayEndTheRunAnywhere) {
  const Mesh mesh(MeshOptions(2));
  Layers layers(2, 2, 4);
  Session session = mesh.MakeSession(layers.plan);
  const size_t steps = layers.plan.data().programs[0].steps.size();
  for (uint32_t end = 0; end < steps; ++end) {
    RunOptions options;
    options.stepwise = true;
    options.user = &end;
    options.on_step = [](void* user, uint32_t, uint32_t step, StepPhase) {
      return step == *static_cast<uint32_t*>(user) ? Status::Error(Code::kNotFound, "enough") : Status::Ok();
    };
    bool right = false;
    EXPECT_STREQ(layers.Run(&session, &right, options).message(), "enough");
    layers.ExpectRight(&session);
  }
}

// Counts the threads that Create makes through the embedder's hooks, and their joins.
struct CountedThreads {
  std::atomic<int> started{0}, joined{0};
  int fail_at = -1;
  ThreadHooks hooks() {
    return {[](void* user, void* (*entry)(void*), void* argument, void** thread) {
              auto* self = static_cast<CountedThreads*>(user);
              if (self->started == self->fail_at) return 11;
              const int error = DefaultThreadHooks().start(nullptr, entry, argument, thread);
              if (error == 0) ++self->started;
              return error;
            },
            [](void* user, void* thread) {
              DefaultThreadHooks().join(nullptr, thread);
              ++static_cast<CountedThreads*>(user)->joined;
            },
            this};
  }
};

TEST(ThreadsTest, AreMadeOnceByTheFirstSessionThatNeedsThem) {
  CountedThreads of_runtime, of_driver;
  {
    HostOptions options = MeshOptions(4);
    options.thread_hooks = of_driver.hooks();
    const ThreadHooks hooks = of_runtime.hooks();
    RuntimeOptions runtime_options;
    runtime_options.threads = &hooks;
    const Mesh mesh(options, runtime_options);
    Layers one(1, 2, 4), three(3, 2, 4), four(4, 2, 4);
    Session alone = mesh.MakeSession(one.plan);
    one.ExpectRight(&alone);
    EXPECT_EQ(of_runtime.started, 0) << "one device is launched by its caller";
    EXPECT_EQ(of_driver.started, 1) << "collectives of one rank have a stream, too";
    Session first = mesh.MakeSession(three.plan);
    EXPECT_EQ(of_runtime.started, 3);
    EXPECT_EQ(of_driver.started, 3);
    three.ExpectRight(&first);
    Session second = mesh.MakeSession(three.plan), third = mesh.MakeSession(four.plan);
    EXPECT_EQ(of_runtime.started, 4);
    EXPECT_EQ(of_driver.started, 4);
    three.ExpectRight(&second);
    four.ExpectRight(&third);
    EXPECT_EQ(of_runtime.started, 4) << "none is made by a run";
    EXPECT_EQ(of_runtime.joined, 0);
  }
  EXPECT_EQ(of_runtime.joined, 4);
  EXPECT_EQ(of_driver.joined, 4);
}

TEST(ThreadsTest, ThatCannotBeStartedFailTheSession) {
  for (int fail_at = 0; fail_at < 4; ++fail_at) {
    CountedThreads of_both;
    of_both.fail_at = fail_at;
    {
      HostOptions options = MeshOptions(2);
      options.thread_hooks = of_both.hooks();
      const ThreadHooks hooks = of_both.hooks();
      RuntimeOptions runtime_options;
      runtime_options.threads = &hooks;
      Mesh mesh(options, runtime_options);
      Layers layers(2, 1, 4);
      Status status = Session::Create(mesh.runtime(), layers.plan).status();
      EXPECT_EQ(status.code(), Code::kOutOfMemory);
      EXPECT_TRUE(Contains(status, "(error 11)")) << status.message();
      of_both.fail_at = -1;
      Session session = mesh.MakeSession(layers.plan);
      ASSERT_TRUE(session.valid());
      layers.ExpectRight(&session);
    }
    EXPECT_EQ(of_both.started, of_both.joined);
  }
}

TEST(AsyncTest, RunAsyncUsesTheLaunchThreads) {
  RuntimeOptions runtime_options;
  runtime_options.async_workers = 2;
  const Mesh mesh(MeshOptions(2), runtime_options);
  Layers a(2, 2, 4), b(2, 2, 4, false, 2);
  Session first = mesh.MakeSession(a.plan), second = mesh.MakeSession(b.plan);
  for (int run = 0; run < 20; ++run) {
    ASSERT_TRUE(first.RunAsync(0, a.inputs, a.outputs, Completion()).ok());
    ASSERT_TRUE(second.RunAsync(0, b.inputs, b.outputs, Completion()).ok());
    EXPECT_TRUE(first.Wait().ok());
    EXPECT_TRUE(second.Wait().ok());
    EXPECT_EQ(a.out[5], a.expected[1]);
    EXPECT_EQ(b.out[5], b.expected[1]);
  }
}

// Device 1's second partition reads nothing from device 0's, but must come after it; and the other way round.
TEST(OrderTest, PartitionsWaitForThoseOfOtherDevices) {
  for (bool stepwise : {false, true}) {
    MeshPlan plan(2);
    const int64_t n = 4;
    const uint32_t scale = plan.ScaleKernel(n, 2);
    uint32_t in[2], mid[2], out[2];
    for (uint32_t d = 0; d < 2; ++d) {
      in[d] = plan.Add(BufferKind::kInput, d, "in" + std::to_string(d), n);
      mid[d] = plan.Add(BufferKind::kTemporary, d, "mid" + std::to_string(d), n);
      out[d] = plan.Add(BufferKind::kOutput, d, "out" + std::to_string(d), n);
    }
    // 0, 1 on device 0; 2, 3 on device 1; 4 on device 0 after 3; 3 after 0 and 1.
    plan.Launch(0, scale, {in[0], mid[0]});
    const uint32_t first = plan.Launch(0, scale, {in[0], out[0]});
    plan.Launch(1, scale, {in[1], mid[1]});
    plan.Break();
    const uint32_t second = plan.Launch(1, scale, {mid[1], out[1]});
    const uint32_t third = plan.Launch(0, scale, {mid[0], out[0]});
    plan.Order(first, second);
    plan.step(third).after = plan.arena.Copy(std::vector<uint32_t>{second});
    plan.Finish();
    struct Log {
      std::mutex mutex;
      std::vector<uint32_t> steps;
    } log;
    HostOptions options = MeshOptions(2);
    options.faults.seed = 5;
    options.faults.most_delay_us = 300;
    options.faults.user = &log;
    options.faults.before = [](void* user, HostCall call, uint32_t, uint32_t step) {
      auto* to = static_cast<Log*>(user);
      std::lock_guard<std::mutex> lock(to->mutex);
      if (call == HostCall::kStep && step != kNone) to->steps.push_back(step);
      return Status::Ok();
    };
    const Mesh mesh(options);
    Session session = mesh.MakeSession(Mesh::Open(plan));
    ASSERT_TRUE(session.valid());
    const float x[4] = {1, 2, 3, 4};
    float y[2][4] = {};
    const Input inputs[] = {{"in0", kNone, DType::kF32, {n}, x, 16}, {"in1", kNone, DType::kF32, {n}, x, 16}};
    const Output outputs[] = {{"out0", kNone, DType::kF32, y[0], 16}, {"out1", kNone, DType::kF32, y[1], 16}};
    RunOptions run_options;
    run_options.stepwise = stepwise;
    for (int run = 0; run < 20; ++run) {
      log.steps.clear();
      Status status = session.Run(0, inputs, outputs, run_options);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(y[0][3], 16);
      EXPECT_EQ(y[1][3], 16);
      auto place = [&](uint32_t step) {
        return std::find(log.steps.begin(), log.steps.end(), step) - log.steps.begin();
      };
      ASSERT_EQ(log.steps.size(), 5u);
      EXPECT_LT(place(first), place(second));
      EXPECT_LT(place(second), place(third));
    }
  }
}

// Two collectives of one communicator in flight at once, which no stream keeps in order.
TEST(OrderTest, StartsOfACommunicatorKeepTheirOrderInAnyOrderOfReplay) {
  MeshPlan plan(2);
  uint32_t points[2];
  for (uint32_t i = 0; i < 2; ++i) {
    points[i] = plan.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, 16, 0, plan.AllDevices(),
                                  "sum" + std::to_string(i));
  }
  for (uint32_t d = 0; d < 2; ++d) {
    uint32_t in[2], out[2];
    for (uint32_t i = 0; i < 2; ++i) {
      const std::string name = std::to_string(d) + "_" + std::to_string(i);
      in[i] = plan.Add(BufferKind::kInput, d, "in" + name, 4);
      out[i] = plan.Add(BufferKind::kOutput, d, "out" + name, 4);
    }
    for (uint32_t i = 0; i < 2; ++i) plan.Start(d, points[i], {in[i], 0}, {out[i], 0});
    for (uint32_t i = 0; i < 2; ++i) plan.Wait(d, points[i]);
  }
  plan.Finish();
  HostOptions options = MeshOptions(2);
  options.faults.reorder = true;
  const Mesh mesh(options);
  Session session = mesh.MakeSession(Mesh::Open(plan));
  ASSERT_TRUE(session.valid());
  const float x[4][4] = {{1}, {10}, {100}, {1000}};
  float y[4][4] = {};
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  for (uint32_t i = 0; i < 4; ++i) {
    inputs.push_back({"", i, DType::kF32, {4}, x[i], 16});
    outputs.push_back({"", i, DType::kF32, y[i], 16});
  }
  for (int run = 0; run < 50; ++run) {
    Status status = session.Run(0, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    for (uint32_t d = 0; d < 2; ++d) {
      EXPECT_EQ(y[2 * d][0], 101);
      EXPECT_EQ(y[2 * d + 1][0], 1010);
    }
  }
}

// Each device's state has its own name, and lives from run to run.
TEST(StateTest, IsOfOneDeviceEach) {
  MeshPlan plan(2);
  const uint32_t add = plan.AddKernel(2);
  const std::vector<uint32_t> x = plan.AddReplicated("x", 2);
  const uint32_t point =
      plan.AddSyncPoint(CollectiveOp::kAllReduce, DType::kF32, 8, 0, plan.AllDevices(), "sum");
  for (uint32_t d = 0; d < 2; ++d) {
    const std::string number = std::to_string(d);
    const uint32_t state = plan.Add(BufferKind::kState, d, "total" + number, 2);
    const uint32_t next = plan.Add(BufferKind::kTemporary, d, "next" + number, 2);
    const uint32_t sum = plan.Add(BufferKind::kTemporary, d, "sum" + number, 2);
    const uint32_t out = plan.Add(BufferKind::kOutput, d, "out" + number, 2);
    plan.Launch(d, add, {state, x[d], next});
    plan.Start(d, point, {next, 0}, {sum, 0});
    plan.Wait(d, point);
    plan.Copy(d, {next, 0}, {state, 0}, 8);
    plan.Copy(d, {sum, 0}, {out, 0}, 8);
  }
  plan.Finish();
  const Mesh mesh(MeshOptions(2));
  Session session = mesh.MakeSession(Mesh::Open(plan));
  ASSERT_TRUE(session.valid());
  const float start[2] = {10, 20}, one[2] = {1, 1};
  float got[2] = {}, total[2] = {};
  ASSERT_TRUE(session.WriteState("total1", start, 8).ok());
  const Input inputs[] = {{"x", kNone, DType::kF32, {2}, one, 8}};
  const Output outputs[] = {{"out0", kNone, DType::kF32, got, 8}};
  for (int run = 1; run <= 3; ++run) {
    Status status = session.Run(0, inputs, outputs);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(got[1], 20 + 2 * static_cast<float>(run));
  }
  ASSERT_TRUE(session.ReadState("total0", total, 8).ok());
  EXPECT_EQ(total[0], 3);
  ASSERT_TRUE(session.ReadState("total1", total, 8).ok());
  EXPECT_EQ(total[0], 13);
}

}  // namespace
}  // namespace rondo
