// A session's promises about results, state, sharing and its own errors, on every available driver.
#include "runtime/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "core/forwarding_driver.h"
#include "core/synthetic.h"
#include "tests/plan/plan_maker.h"
#include "tests/runtime/drivers.h"
#include "tests/runtime/fake_driver.h"
#include "tests/runtime/open_tiny.h"

namespace rondo {
namespace {

constexpr float kX[4] = {10, 20, 30, 40};

Input X(const float* x = kX) { return {"x", kNone, DType::kF32, {4}, x, 16}; }
Input Index(const int64_t* index) { return {"index", kNone, DType::kI64, {1}, index, 8}; }
Output Floats(std::string_view name, float* out, uint64_t bytes = 16) {
  return {name, kNone, DType::kF32, out, bytes};
}

// Runs `add` once and returns y.
std::vector<float> RunAdd(Session& session, const RunOptions& options = {}) {
  std::vector<float> y(4);
  const Input inputs[] = {X()};
  const Output outputs[] = {Floats("y", y.data())};
  Status status = session.Run(TinyPlan::kAdd, inputs, outputs, options);
  EXPECT_TRUE(status.ok()) << status.message();
  return y;
}

std::vector<float> Peek(Session& session) {
  std::vector<float> now(4);
  const Output outputs[] = {Floats("now", now.data())};
  Status status = session.Run(TinyPlan::kPeek, {}, outputs);
  EXPECT_TRUE(status.ok()) << status.message();
  return now;
}

const std::vector<float> kOnce = {10, 40, 90, 160};
const std::vector<float> kTwice = {20, 80, 180, 320};
const std::vector<float> kZero = {0, 0, 0, 0};

class SessionTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ASSERT_NE(driver_, nullptr);
    Open(&tiny_);
  }
  void Open(TinyPlan* tiny) {
    const Status opened = OpenTiny(*tiny, driver_.get(), &plan_, &runtime_);
    ASSERT_TRUE(opened.ok()) << opened.message();
  }
  Session MakeSession() { return rondo::MakeSession(runtime_, plan_); }
  TinyPlan tiny_;
  DriverHandle driver_ = MakeDriver(GetParam());
  Plan plan_;
  Runtime runtime_;
};

TEST_P(SessionTest, RunsAProgram) {
  Session session = MakeSession();
  EXPECT_EQ(RunAdd(session), kOnce);
}

TEST_P(SessionTest, PartitionsRunInOrder) {
  TinyPlan split(/*split=*/true);
  Open(&split);
  Session session = MakeSession();
  EXPECT_EQ(RunAdd(session), kOnce);
  EXPECT_EQ(Peek(session), kOnce);
  session = Session();
  plan_ = Plan();
}

TEST_P(SessionTest, StateBeginsAtZeroPersistsAndResets) {
  Session session = MakeSession();
  EXPECT_EQ(Peek(session), kZero);
  RunAdd(session);
  RunAdd(session);
  EXPECT_EQ(Peek(session), kTwice) << "programs of one plan share state";
  ASSERT_TRUE(session.ResetState().ok());
  EXPECT_EQ(Peek(session), kZero);
}

TEST_P(SessionTest, SeveralSessionsBeginWithTheStateOfOne) {
  for (bool split : {false, true}) {
    TinyPlan tiny(split);
    Open(&tiny);
    Session prefix = MakeSession(), first = MakeSession(), second = MakeSession();
    RunAdd(prefix);
    RunAdd(second);
    ASSERT_TRUE(first.CopyStatesFrom(prefix).ok());
    ASSERT_TRUE(second.CopyStatesFrom(prefix).ok());
    EXPECT_EQ(Peek(first), kOnce);
    EXPECT_EQ(Peek(second), kOnce) << "what it had before is gone";
    RunAdd(first);
    EXPECT_EQ(Peek(first), kTwice);
    EXPECT_EQ(Peek(second), kOnce) << "each goes on alone";
    EXPECT_EQ(Peek(prefix), kOnce);
    ASSERT_TRUE(first.CopyStatesFrom(first).ok());
    EXPECT_EQ(Peek(first), kTwice);
    for (Session* session : {&prefix, &first, &second}) *session = Session();
    plan_ = Plan();
    runtime_ = Runtime();
  }
}

TEST_P(SessionTest, StatesAreCopiedBetweenSessionsOfOnePlanOnly) {
  TinyPlan split(/*split=*/true);
  Result<Plan> other_plan = Plan::FromData(split.data, split.weight_bytes());
  ASSERT_TRUE(other_plan.ok());
  Session session = MakeSession(), other = rondo::MakeSession(runtime_, *other_plan);
  RunAdd(session);
  const Status status = session.CopyStatesFrom(other);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_STREQ(status.message(), "states are copied between sessions of one plan and runtime only");
  EXPECT_EQ(Peek(session), kOnce);
}

TEST_P(SessionTest, StateIsReadAndWrittenByAnyOfItsNames) {
  Session session = MakeSession();
  const float written[4] = {1, 1, 1, 1};
  ASSERT_TRUE(session.WriteState("total", written, 16).ok());
  std::vector<float> read(4);
  ASSERT_TRUE(session.ReadState("total_out", read.data(), 16).ok());
  EXPECT_EQ(read, std::vector<float>(4, 1));
  ASSERT_TRUE(session.ReadState("total_buffer", read.data(), 16).ok());
  Status status = session.ReadState("totel", read.data(), 16);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_STREQ(status.message(), "the plan has no state called \"totel\"; its state is \"total_buffer\"");
  status = session.WriteState("total", written, 12);
  EXPECT_STREQ(status.message(), "state \"total\" has 16 bytes, but 12 bytes were given");
  EXPECT_TRUE(session.status().ok());
}

TEST_P(SessionTest, StateGivenAsAnInputIsWrittenBeforeTheRun) {
  Session session = MakeSession();
  const float total[4] = {5, 5, 5, 5};
  std::vector<float> after(4);
  const Input inputs[] = {{"total", kNone, DType::kF32, {4}, total, 16}, X()};
  const Output outputs[] = {Floats("total_out", after.data())};
  ASSERT_TRUE(session.Run(TinyPlan::kAdd, inputs, outputs).ok());
  EXPECT_EQ(after, (std::vector<float>{15, 45, 95, 165}));
}

TEST_P(SessionTest, PortsMayBeGivenByIndex) {
  Session session = MakeSession();
  std::vector<float> y(4);
  Input x = X();
  x.name = {};
  x.index = 0;
  const Input inputs[] = {x};
  const Output outputs[] = {{{}, 0, DType::kF32, y.data(), 16}};
  ASSERT_TRUE(session.Run(TinyPlan::kAdd, inputs, outputs).ok());
  EXPECT_EQ(y, kOnce);
}

TEST_P(SessionTest, StateAddressIsThePagesOfTheState) {
  if (!driver_->Info().host_memory) GTEST_SKIP() << "state is not in this process";
  Session session = MakeSession();
  RunAdd(session);
  Result<void*> address = session.StateAddress("total");
  ASSERT_TRUE(address.ok()) << address.status().message();
  EXPECT_EQ(static_cast<float*>(*address)[3], 160);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*address) % 4096, 0u);
  EXPECT_EQ(session.state(0).bytes % 4096, 0u) << "no other memory shares the last page";
}

TEST_P(SessionTest, SessionsHaveTheirOwnState) {
  Session first = MakeSession(), second = MakeSession();
  RunAdd(first);
  EXPECT_EQ(Peek(first), kOnce);
  EXPECT_EQ(Peek(second), kZero);
}

TEST_P(SessionTest, SessionsRunFromSeveralThreads) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Result<Session> session = Session::Create(runtime_, plan_);
      if (!session.ok()) return void(++wrong);
      for (int i = 0; i < 50; ++i) {
        std::vector<float> y(4);
        const Input inputs[] = {X()};
        const Output outputs[] = {Floats("y", y.data())};
        if (!session->Run(TinyPlan::kAdd, inputs, outputs).ok() || y != kOnce) ++wrong;
      }
      std::vector<float> total(4);
      if (!session->ReadState("total", total.data(), 16).ok() || total[0] != 500) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(runtime_.session_count(), 0u);
}

TEST_P(SessionTest, StepwiseReplayGivesTheSameAndShowsEachStep) {
  Session session = MakeSession();
  struct Seen {
    std::vector<std::pair<uint32_t, StepPhase>> steps;
  } seen;
  RunOptions options;
  options.stepwise = true;
  options.user = &seen;
  options.on_step = [](void* user, uint32_t program, uint32_t step, StepPhase phase) {
    EXPECT_EQ(program, TinyPlan::kAdd);
    static_cast<Seen*>(user)->steps.push_back({step, phase});
    return Status::Ok();
  };
  EXPECT_EQ(RunAdd(session, options), kOnce);
  const std::vector<std::pair<uint32_t, StepPhase>> expected = {
      {0, StepPhase::kBefore}, {0, StepPhase::kAfter}, {1, StepPhase::kBefore}, {1, StepPhase::kAfter}};
  EXPECT_EQ(seen.steps, expected);
}

TEST_P(SessionTest, AnObserversErrorEndsTheRunAndDoesNotStick) {
  Session session = MakeSession();
  RunOptions options;
  options.stepwise = true;
  options.on_step = [](void*, uint32_t, uint32_t step, StepPhase) {
    return step == 1 ? Status::Error(Code::kAborted, "seen enough") : Status::Ok();
  };
  const Input inputs[] = {X()};
  EXPECT_STREQ(session.Run(TinyPlan::kAdd, inputs, {}, options).message(), "seen enough");
  EXPECT_TRUE(session.status().ok());
  EXPECT_EQ(Peek(session), kZero);
}

TEST_P(SessionTest, AnIndexOutOfRangeNamesItsNodeAndLeavesTheSessionUsable) {
  Session session = MakeSession();
  float z = 0;
  const int64_t bad = 9, good = 2;
  const Output outputs[] = {Floats("z", &z, 4)};
  const Input bad_inputs[] = {Index(&bad)};
  Status status = session.Run(TinyPlan::kPick, bad_inputs, outputs);
  EXPECT_EQ(status.code(), Code::kOutOfRange) << status.message();
  EXPECT_STREQ(status.source_node(), "Gather \"gather_node\"");
  EXPECT_NE(std::string(status.message()).find("program \"pick\", step 0"), std::string::npos)
      << status.message();
  const Input good_inputs[] = {Index(&good)};
  ASSERT_TRUE(session.Run(TinyPlan::kPick, good_inputs, outputs).ok());
  EXPECT_EQ(z, 3);
}

TEST_P(SessionTest, SyntheticWeightsAreTheGeneratorsNumbers) {
  TinyPlan synthetic(/*split=*/false, /*synthetic=*/true);
  Open(&synthetic);
  Session session = MakeSession();
  std::vector<float> expected(4);
  FillSyntheticRange(DType::kF32, SyntheticKey(7, "w"), 2, 0, 4, expected.data());
  for (int i = 0; i < 4; ++i) expected[i] *= kX[i];
  EXPECT_EQ(RunAdd(session), expected);
  session = Session();
  plan_ = Plan();
}

TEST_P(SessionTest, APlanAndARuntimeMayBeDroppedBeforeTheirSession) {
  Session session = MakeSession();
  plan_ = Plan();
  runtime_ = Runtime();
  EXPECT_EQ(RunAdd(session), kOnce);
}

struct CountsWaits : ForwardingDevice {
  using ForwardingDevice::ForwardingDevice;
  Status Wait(Event* event, Stream* stream) override {
    ++waits;
    return inner_->Wait(event, stream);
  }
  int waits = 0;
};

// When a stream of a partition begins, all work before the partition is done. When the partition ends, all
// its streams are done.
TEST(Streams, EachThatAPartitionUsesWaitsForTheFirstAndIsWaitedFor) {
  const std::vector<std::vector<uint32_t>> kStreams = {
      {0, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 0, 2}, {0, 0, 1, 2}, {0, 1, 1, 2}};
  for (const std::vector<uint32_t>& streams : kStreams) {  // the stream of each step
    Maker maker;
    maker.arena_bytes = 512;
    for (int64_t i = 0; i < 4; ++i)
      maker.Copy(Maker::kIn, Maker::kOut, 16, 16 * i, 16 * i, streams[static_cast<size_t>(i)]);
    PlanData data = maker.Make();
    data.weights_bytes = 0;
    data.requirements.target = "host";
    const_cast<DeviceBytes&>(data.requirements.devices[0]).weights = 0;
    DriverHandle host = MakeDriver("host");
    if (host == nullptr || host->Info().max_streams < 3) GTEST_SKIP() << "no driver of three streams";
    CountsWaits device(*host->Open(0));
    OneDeviceDriver driver(host.get(), &device);
    Result<Plan> plan = Plan::FromData(data, {});
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    Result<Runtime> runtime = Runtime::Create(&driver);
    ASSERT_TRUE(runtime.ok()) << runtime.status().message();
    Result<Session> session = Session::Create(*runtime, *plan);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const std::set<uint32_t> different(streams.begin(), streams.end());
    EXPECT_EQ(device.waits, 2 * (static_cast<int>(different.size()) - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Drivers, SessionTest, testing::ValuesIn(DriverNames()),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace rondo
