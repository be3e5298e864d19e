// Failures of a driver or of memory: the error names the failed call, nothing leaks, and lasting errors last.
// On the fake driver, which fails on request.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/session.h"
#include "tests/runtime/fake_driver.h"
#include "tests/runtime/tiny_plan.h"
#include "tests/says.h"

namespace rondo {
namespace {

constexpr float kX[4] = {1, 1, 1, 1};

class FaultsTest : public testing::Test {
 protected:
  void SetUp() override { Open(&tiny_); }
  void Open(TinyPlan* tiny) {
    Result<Plan> plan = Plan::FromData(tiny->data, tiny->weight_bytes());
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    plan_ = plan.Take();
    Result<Runtime> runtime = Runtime::Create(&driver_);
    ASSERT_TRUE(runtime.ok());
    runtime_ = runtime.Take();
  }
  Status Create(Session* session) {
    Result<Session> made = Session::Create(runtime_, plan_);
    if (!made.ok()) return made.status();
    *session = made.Take();
    return Status::Ok();
  }
  Status RunAdd(Session& session) {
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, kX, 16}};
    const Output outputs[] = {{"y", kNone, DType::kF32, y_, 16}};
    return session.Run(TinyPlan::kAdd, inputs, outputs);
  }
  bool Contains(const Status& status, const char* text) {
    return std::string(status.message()).find(text) != std::string::npos;
  }
  TinyPlan tiny_;
  FakeDriver driver_;
  Plan plan_;
  Runtime runtime_;
  float y_[4] = {};
};

TEST_F(FaultsTest, ARecordedOrderThatDiffersIsRefused) {
  driver_.controls.swap_recorded = true;
  Session session;
  Status status = Create(&session);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_TRUE(Contains(status,
                       "arming partition 0: program \"add\", step 0 (Mul \"mul_node\"): the recorded order "
                       "differs: node 0 is step 1 (launch), in the plan this one (launch)"))
      << status.message();
  EXPECT_STREQ(status.source_node(), "Mul \"mul_node\"");
  EXPECT_EQ(driver_.controls.live_objects, 0);
}

TEST_F(FaultsTest, AGraphThatLacksAStepIsRefused) {
  driver_.controls.drop_recorded = true;
  Session session;
  Status status = Create(&session);
  EXPECT_TRUE(Contains(status, "the recorded order differs: 1 nodes for 2 steps")) << status.message();
  EXPECT_STREQ(status.source_node(), "Add \"add_node\"");
}

// Each call of the driver that Create makes fails once.
TEST_F(FaultsTest, CreateSurvivesTheFailureOfEveryCallAndLeavesNothing) {
  for (bool mapped : {true, false}) {
    driver_.controls.host_memory = mapped;
    for (const char* name :
         {"Open", "MemoryInfo", "Allocate", "Fill", "LoadModule", "CreateStream", "ReserveStaging", "CopyIn",
          "Launch", "Copy", "BeginRecord", "EndRecord", "Synchronize"}) {
      bool failed = true;
      for (int after = 0; failed; ++after) {
        Open(&tiny_);
        driver_.controls.fail = name;
        driver_.controls.fail_after = after;
        Session session;
        Status status = Create(&session);
        failed = driver_.controls.fail.empty();
        driver_.controls.fail.clear();
        EXPECT_EQ(failed, !status.ok()) << name << " " << after;
        EXPECT_TRUE(!failed || Contains(status, "failed as asked")) << status.message();
        EXPECT_FALSE(NamesAStepTwice(status.message())) << status.message();
        session = Session();
        EXPECT_EQ(driver_.controls.live_objects, 0) << name << " " << after;
        EXPECT_EQ(runtime_.session_count(), 0u);
        EXPECT_EQ(runtime_.weight_bytes(), 0u);
        ASSERT_LT(after, 40);
      }
    }
  }
}

TEST_F(FaultsTest, AFailedArmNamesStepAndNode) {
  driver_.controls.fail = "Launch";
  driver_.controls.fail_after = 1;
  Session session;
  Status status = Create(&session);
  EXPECT_TRUE(Contains(status, "program \"add\", step 1 (Add \"add_node\"): Launch failed"))
      << status.message();
  EXPECT_STREQ(status.source_node(), "Add \"add_node\"");
}

TEST_F(FaultsTest, TheFirstErrorSticks) {
  Session session;
  ASSERT_TRUE(Create(&session).ok());
  driver_.controls.fail = "LaunchGraph";
  Status first = RunAdd(session);
  EXPECT_TRUE(Contains(first, "program \"add\", step 0 (Mul \"mul_node\"): LaunchGraph failed as asked"))
      << first.message();
  EXPECT_STREQ(RunAdd(session).message(), first.message());
  EXPECT_STREQ(session.ResetState().message(), first.message());
  EXPECT_STREQ(session.status().message(), first.message());
  Session other;
  ASSERT_TRUE(Create(&other).ok());
  EXPECT_TRUE(RunAdd(other).ok()) << "other sessions go on";
}

TEST_F(FaultsTest, EveryCallOfARunMayFail) {
  for (const char* name : {"CopyIn", "LaunchGraph", "CopyOut", "Synchronize"}) {
    Session session;
    ASSERT_TRUE(Create(&session).ok());
    driver_.controls.fail = name;
    driver_.controls.fail_after = 0;
    int waits = driver_.controls.calls["Synchronize"];
    EXPECT_TRUE(Contains(RunAdd(session), "failed as asked")) << name;
    EXPECT_GT(driver_.controls.calls["Synchronize"], waits) << "a failed run waits for what it started";
    EXPECT_FALSE(session.status().ok());
  }
}

TEST_F(FaultsTest, ACallersMistakeDoesNotStick) {
  Session session;
  ASSERT_TRUE(Create(&session).ok());
  EXPECT_EQ(session.Run(TinyPlan::kAdd, {}, {}).code(), Code::kInvalidArgument);
  EXPECT_EQ(session.Run(17, {}, {}).code(), Code::kInvalidArgument);
  EXPECT_TRUE(RunAdd(session).ok());
}

TEST_F(FaultsTest, ADeviceOnWhichNothingWorksMakesTheRuntimeNotReady) {
  driver_.controls.fail = "MemoryInfo";
  EXPECT_TRUE(runtime_.Ready().ok());  // no device is in use yet, so none is asked
  driver_.controls.fail = "";
  Session session;
  ASSERT_TRUE(Create(&session).ok());
  EXPECT_TRUE(runtime_.Ready().ok());
  driver_.controls.fail = "MemoryInfo";
  const Status status = runtime_.Ready();
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(Contains(status, "device 0")) << status.message();
}

TEST_F(FaultsTest, OneCallAtATime) {
  Session session;
  ASSERT_TRUE(Create(&session).ok());
  RunOptions options;
  options.stepwise = true;
  options.user = &session;
  options.on_step = [](void* user, uint32_t, uint32_t, StepPhase) {
    Status status = static_cast<Session*>(user)->ResetState();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition);
    EXPECT_STREQ(status.message(), "the session is in use by another call");
    return Status::Ok();
  };
  const Input inputs[] = {{"x", kNone, DType::kF32, {4}, kX, 16}};
  EXPECT_TRUE(session.Run(TinyPlan::kAdd, inputs, {}, options).ok());
}

TEST_F(FaultsTest, WeightsAreLoadedOnceAndGoWithTheLastSession) {
  driver_.controls.host_memory = false;
  Session first, second;
  ASSERT_TRUE(Create(&first).ok());
  int copies = driver_.controls.calls["CopyIn"];
  EXPECT_EQ(copies, 1);
  EXPECT_EQ(runtime_.weight_bytes(), 16u);
  ASSERT_TRUE(Create(&second).ok());
  EXPECT_EQ(driver_.controls.calls["CopyIn"], copies);
  EXPECT_EQ(driver_.controls.calls["LoadModule"], 1);
  EXPECT_EQ(first.BufferAddress(1), second.BufferAddress(1));
  first = Session();
  EXPECT_EQ(runtime_.weight_bytes(), 16u);
  EXPECT_TRUE(RunAdd(second).ok());
  second = Session();
  EXPECT_EQ(runtime_.weight_bytes(), 0u);
  EXPECT_EQ(driver_.controls.live_objects, 0);
  EXPECT_EQ(driver_.controls.live_bytes, 0u);
}

TEST_F(FaultsTest, WeightsAreUsedWhereTheyLieOnDriversWithHostMemory) {
  Session session;
  ASSERT_TRUE(Create(&session).ok());
  EXPECT_EQ(session.BufferAddress(1), reinterpret_cast<DeviceAddress>(tiny_.weights));
  EXPECT_EQ(runtime_.weight_bytes(), 0u);
}

TEST_F(FaultsTest, MemoryThatIsNotThereIsRefusedBeforeItIsTaken) {
  driver_.controls.free_bytes = 1000;
  Session session;
  Status status = Create(&session);
  EXPECT_EQ(status.code(), Code::kOutOfMemory);
  EXPECT_STREQ(status.message(),
               "device 0: the session's arena and state of 8192 bytes; 1000 of 2147483648 bytes are free");
  EXPECT_EQ(driver_.controls.calls["Allocate"], 0);
}

// A host allocator that fails at its n-th call.
struct Failing {
  int left = 0;
  int64_t live = 0;
  static void* Allocate(void* user, size_t bytes, size_t alignment) {
    auto* self = static_cast<Failing*>(user);
    if (self->left-- == 0) return nullptr;
    ++self->live;
    return DefaultHostAllocator().allocate(nullptr, bytes, alignment);
  }
  static void Deallocate(void* user, void* block, size_t bytes) {
    --static_cast<Failing*>(user)->live;
    DefaultHostAllocator().deallocate(nullptr, block, bytes);
  }
};

TEST_F(FaultsTest, HostMemoryMayRunOutAtAnyAllocation) {
  Failing failing;
  HostAllocator allocator{Failing::Allocate, Failing::Deallocate, &failing};
  bool done = false;
  for (int after = 0; !done; ++after) {
    ASSERT_LT(after, 200);
    failing.left = after;
    PlanOptions plan_options;
    plan_options.allocator = &allocator;
    RuntimeOptions runtime_options;
    runtime_options.allocator = &allocator;
    {
      Result<Plan> plan = Plan::FromData(tiny_.data, tiny_.weight_bytes(), plan_options);
      Result<Runtime> runtime = Runtime::Create(&driver_, runtime_options);
      if (!plan.ok() || !runtime.ok()) {
        EXPECT_EQ((plan.ok() ? runtime.status() : plan.status()).code(), Code::kOutOfMemory);
      } else {
        Result<Session> session = Session::Create(*runtime, *plan);
        done = session.ok();
        EXPECT_TRUE(done || session.status().code() == Code::kOutOfMemory) << session.status().message();
      }
    }
    EXPECT_EQ(failing.live, 0) << after;
    EXPECT_EQ(driver_.controls.live_objects, 0) << after;
  }
}

TEST_F(FaultsTest, RequirementsAreAnsweredWithoutLoading) {
  EXPECT_TRUE(runtime_.Supports(plan_).ok());
  TinyPlan demanding;
  demanding.data.requirements.least_driver_version = 9;
  Result<Plan> plan = Plan::FromData(demanding.data, demanding.weight_bytes());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  Status status = runtime_.Supports(*plan);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_STREQ(status.message(), "the plan needs driver version 9; \"fake\" has 1");
  EXPECT_FALSE(Session::Create(runtime_, *plan).ok());
  EXPECT_EQ(driver_.controls.calls["Open"], 0);
}

TEST(RuntimeTest, DevicesThatAreNotThereAreRefused) {
  FakeDriver driver(2);
  const uint32_t missing[] = {0, 2}, twice[] = {1, 1}, good[] = {1, 0};
  RuntimeOptions options;
  options.devices = missing;
  EXPECT_STREQ(Runtime::Create(&driver, options).status().message(),
               "device 2 asked for; driver \"fake\" has 2");
  options.devices = twice;
  EXPECT_TRUE(Runtime::Create(&driver, options).ok());
  options.devices = good;
  EXPECT_TRUE(Runtime::Create(&driver, options).ok());
  EXPECT_FALSE(Runtime::Create(nullptr).ok());
}

}  // namespace
}  // namespace rondo
