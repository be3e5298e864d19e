// A host driver's scratch memory belongs to the sessions that need it: a plan that needs too much leaves
// nothing behind, and a session's scratch is freed with the session.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "drivers/host/host_driver.h"
#include "runtime/session.h"
#include "tests/fuzz/memory_meter.h"
#include "tests/runtime/open_tiny.h"
#include "tests/runtime/tiny_plan.h"

namespace rondo {
namespace {

constexpr uint64_t kMemory = 16 << 20;  // the driver's limit
constexpr uint32_t kThreads = 2;

// The tiny plan with a first step that keeps `length` values a row: y is the maximum of a row of x * w. It
// needs 8 * length bytes of scratch a thread.
struct KeepingPlan : TinyPlan {
  explicit KeepingPlan(int64_t length) : kernels_(data.kernels.begin(), data.kernels.end()) {
    Part part = kernels_[0].parts[0];
    part.skeleton = Skeleton::kReduction;
    part.outer = part.reduced = 1;
    part.loops = List<int64_t>({4, length});
    std::vector<Operand> operands(part.operands.begin(), part.operands.end());
    for (Operand& o : operands) o.strides = List<int64_t>({1, 0});
    part.operands = arena.Copy(operands);
    part.body = {};
    part.scalars = part.kept = 1;
    TapeInst store = kernels_[0].parts[0].body[3];
    store.a = 0;
    std::array<Stage, 3> stages;
    stages[0].tape =
        List<TapeInst>({Load(0), Load(1), Inst(TapeOp::kMul, 0, 0, 1), Inst(TapeOp::kKeep, 0, 2)});
    stages[1].tape = List<TapeInst>({Inst(TapeOp::kKept, 0), Inst(TapeOp::kReduceMax, 0, 0)});
    stages[2].per_row = true;
    stages[2].tape = List<TapeInst>({Inst(TapeOp::kScalar, 0), store});
    part.stages = List<Stage>({stages[0], stages[1], stages[2]});
    kernels_[0].parts = List<Part>({part});
    data.kernels = {kernels_.data(), kernels_.size()};
  }

 private:
  template <typename T>
  Span<const T> List(std::initializer_list<T> list) {
    return arena.Copy(std::vector<T>(list));
  }
  static TapeInst Inst(TapeOp op, uint16_t arg, uint16_t a = 0, uint16_t b = 0) {
    TapeInst inst;
    inst.op = op;
    inst.arg = arg;
    inst.a = a;
    inst.b = b;
    return inst;
  }
  static TapeInst Load(uint16_t operand) { return Inst(TapeOp::kLoad, operand); }

  std::vector<Kernel> kernels_;
};

class HostScratchTest : public testing::Test {
 protected:
  void SetUp() override {
    HostOptions options;
    options.threads = kThreads;
    options.allocator = meter_.allocator();
    Result<Driver*> driver = CreateHostDriver(options);
    ASSERT_TRUE(driver.ok());
    driver_ = *driver;
    for (auto [tiny, plan] :
         {std::pair(&small_, &small_plan_), {&large_, &large_plan_}, {&huge_, &huge_plan_}}) {
      Status opened = OpenTiny(*tiny, driver_, plan, &runtime_);
      ASSERT_TRUE(opened.ok()) << opened.message();
    }
  }
  void TearDown() override {
    runtime_ = Runtime();
    DestroyHostDriver(driver_);
    EXPECT_EQ(meter_.live(), 0u);
  }
  static void ExpectRuns(Session& session) {
    const float x[4] = {10, 20, 30, 40};
    std::vector<float> y(4);
    const Input input = {"x", kNone, DType::kF32, {4}, x, 16};
    const Output output = {"y", kNone, DType::kF32, y.data(), 16};
    const Status status = session.Run(TinyPlan::kAdd, {&input, 1}, {&output, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(y, (std::vector<float>{10, 40, 90, 160}));
  }

  static constexpr int64_t kLarge = kMemory / 2 / kThreads / 8, kHuge = kMemory / kThreads / 8;
  TinyPlan small_;
  KeepingPlan large_{kLarge}, huge_{kHuge};
  fuzz::MemoryMeter meter_{kMemory};
  Driver* driver_ = nullptr;
  Runtime runtime_;
  Plan small_plan_, large_plan_, huge_plan_;
};

TEST_F(HostScratchTest, APlanThatAskedForTooMuchLeavesRoomForOthers) {
  Session before = MakeSession(runtime_, small_plan_);
  const Result<Session> refused = Session::Create(runtime_, huge_plan_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kOutOfMemory);
  Session after = MakeSession(runtime_, small_plan_), large = MakeSession(runtime_, large_plan_);
  ExpectRuns(before);
  ExpectRuns(after);
  ExpectRuns(large);
}

TEST_F(HostScratchTest, WhatASessionTookGoesWithIt) {
  Session small = MakeSession(runtime_, small_plan_);
  const uint64_t alone = meter_.live();
  {
    Session large = MakeSession(runtime_, large_plan_);
    EXPECT_GT(meter_.live(), alone + kMemory / 2);
    ExpectRuns(large);
    ExpectRuns(small);
  }
  EXPECT_EQ(meter_.live(), alone);
  Session large = MakeSession(runtime_, large_plan_);
  ExpectRuns(large);
}

TEST_F(HostScratchTest, SessionsTakeWhatTheirOwnPlanNeeds) {
  Session large = MakeSession(runtime_, large_plan_);
  const uint64_t before = meter_.live();
  for (int i = 0; i < 8; ++i) {
    Session small = MakeSession(runtime_, small_plan_);
    ExpectRuns(small);
    EXPECT_LT(meter_.live(), before + kMemory / 8);
  }
}

}  // namespace
}  // namespace rondo
