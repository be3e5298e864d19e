// Tensors in device memory: those used in place, those copied, and those refused.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/run_timer.h"
#include "runtime/session.h"
#include "tests/runtime/drivers.h"
#include "tests/runtime/open_tiny.h"

namespace rondo {
namespace {

using Values = std::vector<float>;

// The caller's memory on the device. For all drivers here that is host memory.
struct alignas(64) Block {
  float values[64] = {};
  Values First(size_t count = 4) const { return Values(values, values + count); }
};

Input X(const float* x, MemoryKind memory = MemoryKind::kDevice) {
  return {"x", kNone, DType::kF32, {4}, x, 16, memory};
}
Output Floats(std::string_view name, float* out, MemoryKind memory = MemoryKind::kDevice) {
  return {name, kNone, DType::kF32, out, 16, memory};
}

// "rebinding": the fake driver with graphs that can get new addresses; "fake": without.
class DeviceMemoryTest : public testing::TestWithParam<const char*> {
 protected:
  // Ends the session before the plan of the same scope.
  struct Ending {
    Session& session;
    ~Ending() { session = Session(); }
  };

  void SetUp() override {
    if (GetParam() == std::string("rebinding")) {
      fake_ = new FakeDriver();
      fake_->controls.rebinds = true;
      driver_ = DriverHandle(fake_, [](Driver* driver) { delete driver; });
    } else {
      driver_ = MakeDriver(GetParam());
    }
    ASSERT_NE(driver_, nullptr);
    Open(&tiny_);
  }
  void Open(TinyPlan* tiny) {
    session_ = Session();
    Plan plan;
    const Status opened = OpenTiny(*tiny, driver_.get(), &plan, &runtime_);
    ASSERT_TRUE(opened.ok()) << opened.message();
    session_ = MakeSession(runtime_, plan);
  }
  bool rebinds() const { return driver_->Info().rebinds; }
  uint64_t Copied() const { return runtime_.metrics().input_bytes + runtime_.metrics().output_bytes; }
  Status Add(const Input& x, const Output& y, const RunOptions& options = {}) {
    return session_.Run(TinyPlan::kAdd, {&x, 1}, {&y, 1}, options);
  }
  // Expects kInvalidArgument with all of `names`, and that the session stays usable.
  void ExpectRefused(const Input& x, const Output& y, std::initializer_list<const char*> names) {
    const Status status = Add(x, y);
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    for (const char* name : names)
      EXPECT_NE(std::strstr(status.message(), name), nullptr) << status.message();
    EXPECT_TRUE(session_.status().ok());
  }

  TinyPlan tiny_;
  FakeDriver* fake_ = nullptr;
  DriverHandle driver_{nullptr, nullptr};
  Runtime runtime_;
  Session session_;
};

TEST_P(DeviceMemoryTest, IsUsedWhereItIsIfGraphsCanBeTold) {
  Block x, y;
  for (float run = 1; run < 4; ++run) {
    for (int i = 0; i < 4; ++i) x.values[i] = run;
    ASSERT_TRUE(Add(X(x.values), Floats("y", y.values)).ok());
    EXPECT_EQ(y.First(), Values({run, 2 * run, 3 * run, 4 * run}));
  }
  EXPECT_EQ(Copied(), rebinds() ? 0u : 3u * 32);
}

TEST_P(DeviceMemoryTest, ChangesWithEveryRun) {
  TinyPlan split(/*split=*/true);
  const Ending ending{session_};
  Open(&split);
  Block x[3], y[3];
  Values total = {0, 0, 0, 0};
  for (uint32_t run = 0; run < 60; ++run) {
    Block &from = x[run % 3], &to = y[run / 2 % 3];
    for (int i = 0; i < 4; ++i) from.values[i] = static_cast<float>(run + 1);
    const MemoryKind in = run % 4 == 1 ? MemoryKind::kHost : MemoryKind::kDevice;
    const MemoryKind out = run % 5 == 2 ? MemoryKind::kHost : MemoryKind::kDevice;
    RunOptions options;
    options.stepwise = run % 7 == 3;
    ASSERT_TRUE(Add(X(from.values, in), Floats("y", to.values, out), options).ok());
    for (size_t i = 0; i < 4; ++i) {
      const float product = static_cast<float>(run + 1) * static_cast<float>(i + 1);
      total[i] += product;  // computed by a step that reads y
      EXPECT_EQ(to.values[i], product) << "run " << run;
    }
    EXPECT_EQ(to.values[4], 0);
  }
  Block now;
  const Output outputs[] = {Floats("now", now.values)};
  ASSERT_TRUE(session_.Run(TinyPlan::kPeek, {}, outputs).ok());  // computed by a copy step
  EXPECT_EQ(now.First(), total);
}

TEST_P(DeviceMemoryTest, IsLeftAloneOnceTheRunHasEnded) {
  Block x, y;
  for (float& value : x.values) value = 2;
  ASSERT_TRUE(Add(X(x.values), Floats("y", y.values)).ok());
  const Block kept = y;
  for (float& value : x.values) value = 3;
  const Input again = X(x.values);
  ASSERT_TRUE(session_.Run(TinyPlan::kAdd, {&again, 1}, {}).ok());  // without y
  EXPECT_EQ(y.First(), kept.First());
  for (float& value : x.values) value = 1e9f;
  const float host[4] = {1, 1, 1, 1};
  float result[4] = {};
  ASSERT_TRUE(Add(X(host, MemoryKind::kHost), Floats("y", result, MemoryKind::kHost)).ok());
  EXPECT_EQ(Values(result, result + 4), Values({1, 2, 3, 4}));
  EXPECT_EQ(y.First(), kept.First());
}

TEST_P(DeviceMemoryTest, OfAnotherAlignmentIsCopied) {
  Block x, y;
  for (int i = 0; i < 4; ++i) x.values[1 + i] = 1;
  ASSERT_TRUE(Add(X(x.values + 1), Floats("y", y.values + 3)).ok());
  EXPECT_EQ(y.First(8), Values({0, 0, 0, 1, 2, 3, 4, 0}));
  EXPECT_EQ(Copied(), 32u);
}

TEST_P(DeviceMemoryTest, OfStateIsCopied) {
  Block x, before, after;
  for (int i = 0; i < 4; ++i) before.values[i] = 100, x.values[i] = 1;
  const Input inputs[] = {X(x.values),
                          {"total", kNone, DType::kF32, {4}, before.values, 16, MemoryKind::kDevice}};
  const Output outputs[] = {Floats("total_out", after.values)};
  ASSERT_TRUE(session_.Run(TinyPlan::kAdd, inputs, outputs).ok());
  EXPECT_EQ(after.First(), Values({101, 102, 103, 104}));
  EXPECT_EQ(before.First(), Values({100, 100, 100, 100}));
}

// With the user's permission the plan takes the input over in place, so the result lies there too.
TEST_P(DeviceMemoryTest, ThatAStepTakesOverInPlaceHoldsTheResult) {
  TinyPlan in_place;
  auto* buffers = const_cast<Buffer*>(in_place.data.buffers.data());
  for (uint32_t b = 0; b < in_place.data.buffers.size(); ++b) {
    if (buffers[b].name != "y") continue;
    buffers[b].offset = buffers[0].offset;
    buffers[b].aliases = 0;
  }
  ASSERT_EQ(buffers[0].name, "x");
  const Ending ending{session_};
  Open(&in_place);
  Block x, y;
  for (int i = 0; i < 4; ++i) x.values[i] = 1;
  ASSERT_TRUE(Add(X(x.values), Floats("y", y.values)).ok());
  EXPECT_EQ(y.First(), Values({1, 2, 3, 4}));
  EXPECT_EQ(x.First(), rebinds() ? Values({1, 2, 3, 4}) : Values({1, 1, 1, 1}));
  EXPECT_EQ(Copied(), rebinds() ? 16u : 32u);
  for (int i = 0; i < 4; ++i) x.values[i] = 2;
  ASSERT_TRUE(Add(X(x.values), Floats("y", x.values)).ok()) << "both are one";
  EXPECT_EQ(x.First(), Values({2, 4, 6, 8}));
  EXPECT_EQ(Copied(), rebinds() ? 16u : 64u);
  ExpectRefused(X(x.values), Floats("y", x.values + 1), {"\"y\"", "overlaps"});
}

// A program in which many more steps read y.
TEST_P(DeviceMemoryTest, OfManyStepsIsCopiedUntilItIsGivenAgain) {
  constexpr uint32_t kSteps = 20;
  TinyPlan many;
  std::vector<Program> programs(many.data.programs.begin(), many.data.programs.end());
  Program& program = programs[TinyPlan::kAdd];
  std::vector<Step> steps(kSteps, program.steps[1]);
  steps[0] = program.steps[0];
  Partition partition = program.partitions[0];
  partition.num_steps = kSteps;
  program.steps = steps;
  program.partitions = {&partition, 1};
  many.data.programs = programs;
  std::vector<Buffer> buffers(many.data.buffers.begin(), many.data.buffers.end());
  for (Buffer& buffer : buffers) {
    if (buffer.name == "y") buffer.last_step = kSteps - 1;
  }
  many.data.buffers = buffers;
  const Ending ending{session_};
  Open(&many);
  if (!session_.valid()) return;
  Block x, y, z;
  const auto copied = [&](Block& to) {
    const uint64_t before = runtime_.metrics().output_bytes;
    const Status status = Add(X(x.values), Floats("y", to.values));
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(to.values[3], 4 * x.values[3]);
    return runtime_.metrics().output_bytes - before;
  };
  x.values[3] = 1;
  EXPECT_EQ(copied(y), 16u);
  const uint64_t again = rebinds() ? 0 : 16;
  x.values[3] = 2;
  EXPECT_EQ(copied(y), again);
  x.values[3] = 3;
  EXPECT_EQ(copied(y), again);
  for (Block* to : {&z, &y, &z}) {
    ++x.values[3];
    EXPECT_EQ(copied(*to), 16u);
  }
  EXPECT_EQ(copied(z), again);
}

TEST_P(DeviceMemoryTest, IsNotWhatTimedStepsUse) {
  Result<RunTimer> early = RunTimer::Create(session_, TinyPlan::kAdd, TimerDetail::kSteps);
  if (!early.ok()) return;  // the driver has no timed events
  Block x, y;
  for (int i = 0; i < 4; ++i) x.values[i] = 1;
  ASSERT_TRUE(Add(X(x.values), Floats("y", y.values)).ok());
  Result<RunTimer> late = RunTimer::Create(session_, TinyPlan::kAdd, TimerDetail::kSteps);
  Result<RunTimer> whole = RunTimer::Create(session_, TinyPlan::kAdd, TimerDetail::kPartitions);
  ASSERT_TRUE(late.ok() && whole.ok());
  float value = 0;
  for (const RunTimer* timer : {&*early, &*late, &*whole}) {
    value += 10;
    RunOptions options;
    options.timer = timer;
    Block other_x, other_y;
    for (int i = 0; i < 4; ++i) other_x.values[i] = value;
    const uint64_t copied = Copied();
    ASSERT_TRUE(Add(X(other_x.values), Floats("y", other_y.values), options).ok());
    EXPECT_EQ(other_y.First(), Values({value, 2 * value, 3 * value, 4 * value}));
    EXPECT_EQ(Copied() - copied, timer == &*whole ? 0u : 32u);
  }
  EXPECT_EQ(y.First(), Values({1, 2, 3, 4}));
}

TEST_P(DeviceMemoryTest, MustBeApart) {
  Block block;
  float* at = block.values;
  ExpectRefused(X(at), Floats("y", at), {"output \"y\"", "input \"x\"", "overlap"});
  ExpectRefused(X(at), Floats("y", at + 3), {"output \"y\"", "input \"x\""});
  ExpectRefused(X(at + 3), Floats("y", at, MemoryKind::kHost), {"output \"y\"", "input \"x\""});
  EXPECT_TRUE(Add(X(at), Floats("y", at + 4)).ok());
  EXPECT_TRUE(
      Add(X(at, MemoryKind::kHost), Floats("y", at, MemoryKind::kHost)).ok());  // copied, one after another
  const Input same[] = {X(at), {"total", kNone, DType::kF32, {4}, at, 16, MemoryKind::kDevice}};
  EXPECT_TRUE(session_.Run(TinyPlan::kAdd, same, {}).ok());
  const Output twice[] = {Floats("y", at + 8), Floats("total_out", at + 9)};
  EXPECT_EQ(session_.Run(TinyPlan::kAdd, {same, 1}, twice).code(), Code::kInvalidArgument);

  auto* arena = reinterpret_cast<float*>(session_.arena(0).address);
  auto* state = reinterpret_cast<float*>(session_.state(0).address);
  ExpectRefused(X(at), Floats("y", arena + 5), {"output \"y\"", "session's \"arena\""});
  ExpectRefused(X(state), Floats("y", at), {"input \"x\"", "session's \"state\""});
  ExpectRefused(X(nullptr), Floats("y", at), {"input \"x\"", "null"});
  ExpectRefused(X(at), Floats("y", nullptr), {"output \"y\"", "null"});
}

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceMemoryTest, testing::ValuesIn([] {
                           std::vector<const char*> names = DriverNames();
                           names.push_back("rebinding");
                           return names;
                         }()),
                         [](const auto& name) { return std::string(name.param); });

class DeviceMemoryOnAFakeDriver : public testing::Test {
 protected:
  void SetUp() override {
    driver_.controls.rebinds = true;
    ASSERT_TRUE(OpenTiny(tiny_, &driver_, &plan_, &runtime_).ok());
  }
  TinyPlan tiny_;
  FakeDriver driver_;
  Plan plan_;
  Runtime runtime_;
};

TEST_F(DeviceMemoryOnAFakeDriver, IsCopiedWhereANodeKeepsItsAddresses) {
  driver_.controls.fixed_node = 1;  // total += y
  Session session = MakeSession(runtime_, plan_);
  Block x, y;
  for (int i = 0; i < 4; ++i) x.values[i] = 1;
  const Input input = X(x.values);
  const Output output = Floats("y", y.values);
  ASSERT_TRUE(session.Run(TinyPlan::kAdd, {&input, 1}, {&output, 1}).ok());
  EXPECT_EQ(y.First(), Values({1, 2, 3, 4}));
  EXPECT_EQ(runtime_.metrics().input_bytes, 0u);
  EXPECT_EQ(runtime_.metrics().output_bytes, 16u);
}

TEST_F(DeviceMemoryOnAFakeDriver, IsToldToEachStepOnceAndOnlyWhenItIsAnother) {
  Session session = MakeSession(runtime_, plan_);
  int& told = driver_.controls.calls["SetAddresses"];
  Block x, y, z;
  auto run = [&](Block& to, size_t from = 0) {
    told = 0;
    const Input input = X(x.values + from);
    const Output output = Floats("y", to.values);
    EXPECT_TRUE(session.Run(TinyPlan::kAdd, {&input, 1}, {&output, 1}).ok());
    return told;
  };
  EXPECT_EQ(run(y), 2);  // both steps get new addresses; the first has both tensors
  EXPECT_EQ(run(y), 0);
  EXPECT_EQ(run(z), 2);
  EXPECT_EQ(run(z), 0);
  EXPECT_EQ(run(z, 16), 1);
}

TEST_F(DeviceMemoryOnAFakeDriver, FailuresNameTheStepAndStick) {
  driver_.controls.fail = "SetAddresses";
  EXPECT_EQ(Session::Create(runtime_, plan_).status().code(), Code::kInternal);
  Session session = MakeSession(runtime_, plan_);
  driver_.controls.fail = "SetAddresses";
  driver_.controls.fail_after = 1;
  Block x, y;
  const Input input = X(x.values);
  const Output output = Floats("y", y.values);
  const Status failed = session.Run(TinyPlan::kAdd, {&input, 1}, {&output, 1});
  EXPECT_NE(std::strstr(failed.message(), "add_node"), nullptr) << failed.message();
  EXPECT_STREQ(session.Run(TinyPlan::kAdd, {&input, 1}, {&output, 1}).message(), failed.message());
}

}  // namespace
}  // namespace rondo
