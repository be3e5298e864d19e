// A plan that calls custom ops, run by the host driver.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/custom_op.h"
#include "drivers/host/host_driver.h"
#include "runtime/session.h"
#include "tests/plan/call_plan.h"
#include "tests/says.h"

namespace rondo {
namespace {

class CallsOnHost : public testing::Test {
 protected:
  CallsOnHost() : sample_(MakeCallSample()) {
    EXPECT_TRUE(ops_.Register("libtest.so", RegisterTestOps).ok());
    OpCounts& counts = CountsOfTestOps();
    counts.created = counts.destroyed = counts.scaled = counts.taps = 0;
  }
  ~CallsOnHost() override { Close(); }

  void Close() {
    sessions_.clear();
    runtime_ = Runtime();
    if (driver_ != nullptr) DestroyHostDriver(driver_);
    driver_ = nullptr;
  }

  Status Open(const OpRegistry* ops, int sessions = 1) {
    HostOptions options;
    options.ops = ops;
    RONDO_ASSIGN_OR_RETURN(driver_, CreateHostDriver(options));
    RONDO_ASSIGN_OR_RETURN(Plan plan, Plan::FromData(sample_.data, {}));
    RONDO_ASSIGN_OR_RETURN(runtime_, Runtime::Create(driver_));
    for (int i = 0; i < sessions; ++i) {
      RONDO_ASSIGN_OR_RETURN(Session session, Session::Create(runtime_, plan));
      sessions_.push_back(std::move(session));
    }
    return Status::Ok();
  }

  Status Run(const std::vector<float>& x, std::vector<float>* y, bool stepwise = false, size_t session = 0) {
    y->assign(4, 0);
    const Input inputs[] = {{"x", kNone, DType::kF32, {4}, x.data(), 16}};
    const Output outputs[] = {{"y", kNone, DType::kF32, y->data(), 16}};
    RunOptions options;
    options.stepwise = stepwise;
    return sessions_[session].Run(0, inputs, outputs, options);
  }
  std::vector<float> Total(size_t session = 0) {
    std::vector<float> total(4);
    EXPECT_TRUE(sessions_[session].ReadState("total", total.data(), 16).ok());
    return total;
  }

  Sample sample_;
  OpRegistry ops_;
  Driver* driver_ = nullptr;
  Runtime runtime_;
  std::vector<Session> sessions_;
};

using Floats = std::vector<float>;

TEST_F(CallsOnHost, GiveWhatTheirOpsCompute) {
  const Status opened = Open(&ops_);
  ASSERT_TRUE(opened.ok()) << opened.message();
  EXPECT_EQ(CountsOfTestOps().taps, 0);  // arming runs nothing, and records no op that no graph may contain
  EXPECT_EQ(CountsOfTestOps().scaled, 0);
  Floats y;
  for (bool stepwise : {false, true, false}) {
    const Status run = Run({1, 2, 3, 4}, &y, stepwise);
    ASSERT_TRUE(run.ok()) << run.message();
    EXPECT_EQ(y, (Floats{3, 6, 9, 12}));
  }
  EXPECT_EQ(Total(), (Floats{6, 12, 18, 24}));
  EXPECT_EQ(CountsOfTestOps().taps, 3);
  EXPECT_EQ(CountsOfTestOps().scaled, 3);
}

TEST_F(CallsOnHost, MakeInstancesOnceAPlanAndGiveThemBack) {
  ASSERT_TRUE(Open(&ops_, 3).ok());
  EXPECT_EQ(CountsOfTestOps().created, 3);  // Scale, Accumulate, Tap: shared by the sessions
  EXPECT_EQ(CountsOfTestOps().destroyed, 0);
  Close();
  EXPECT_EQ(CountsOfTestOps().destroyed, 3);
}

TEST_F(CallsOnHost, RunInSeveralSessionsAtOnce) {
  constexpr int kSessions = 4, kRuns = 200;
  ASSERT_TRUE(Open(&ops_, kSessions).ok());
  std::vector<std::thread> threads;
  std::vector<int> wrong(kSessions, 0);
  for (size_t s = 0; s < kSessions; ++s) {
    threads.emplace_back([&, s] {
      const float value = static_cast<float>(s + 1);
      for (int i = 0; i < kRuns; ++i) {
        Floats y;
        if (!Run({value, value, value, value}, &y, false, s).ok() || y[3] != 3 * value) ++wrong[s];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t s = 0; s < kSessions; ++s) {
    EXPECT_EQ(wrong[s], 0);
    EXPECT_EQ(Total(s)[0], 2 * kRuns * static_cast<float>(s + 1));
  }
}

TEST_F(CallsOnHost, DataThatAnOpCannotWorkOnFailsTheRunAlone) {
  ASSERT_TRUE(Open(&ops_).ok());
  Floats y;
  const Status bad = Run({500, 0, 0, 0}, &y);  // Tap sees 1000
  EXPECT_SAYS(bad, "step 2 (Tap \"tap\"): custom op \"test.Tap\" of libtest.so: its first element is 1000");
  EXPECT_EQ(bad.code(), Code::kOutOfRange);
  EXPECT_STREQ(bad.source_node(), "Tap \"tap\"");
  EXPECT_EQ(Total()[0], 1000);  // steps before it have run
  ASSERT_TRUE(sessions_[0].ResetState().ok());
  ASSERT_TRUE(Run({1, 1, 1, 1}, &y).ok());
  EXPECT_EQ(y, (Floats{3, 3, 3, 3}));
  EXPECT_EQ(Total(), (Floats{2, 2, 2, 2}));
}

TEST_F(CallsOnHost, AFailureStopsWhatComesAfterItAndSticks) {
  ASSERT_TRUE(Open(&ops_).ok());
  Floats y;
  EXPECT_SAYS(Run({1000, 0, 0, 0}, &y), "its first element is 2000");
  EXPECT_EQ(y[0], 0);  // the partition after the call has not run
  EXPECT_SAYS(Run({1, 1, 1, 1}, &y), "its first element is 2000");
  EXPECT_EQ(CountsOfTestOps().taps, 1);
}

TEST_F(CallsOnHost, AFailureInAGraphNamesItsStep) {
  CustomOf(sample_, 2).graph_safe = true;  // as another library would have it
  CustomOf(sample_, 2).reason = "";
  Partition& first = Edit(sample_.data.programs[0].partitions, 0);
  first.num_steps = 5;
  ProgramOf(sample_, 0).partitions = sample_.data.programs[0].partitions.subspan(0, 1);
  OpRegistry other;
  ASSERT_TRUE(other
                  .Register("libtest.so",
                            [](const rondo_op_registrar* r) {
                              static const rondo_op_registrar* outer;
                              outer = r;
                              const rondo_op_registrar inner = {sizeof(inner), r->abi, nullptr,
                                                                [](void*, const rondo_op* op) {
                                                                  rondo_op safe = *op;
                                                                  safe.flags &= ~RONDO_OP_NO_GRAPH;
                                                                  safe.no_graph_reason = nullptr;
                                                                  return outer->add(outer->context, &safe);
                                                                }};
                              return RegisterTestOps(&inner);
                            })
                  .ok());
  const Status opened = Open(&other);
  ASSERT_TRUE(opened.ok()) << opened.message();
  Floats y;
  ASSERT_TRUE(Run({1, 2, 3, 4}, &y).ok());
  EXPECT_EQ(y, (Floats{3, 6, 9, 12}));
  const Status bad = Run({500, 0, 0, 0}, &y);
  EXPECT_SAYS(bad, "step 2 (Tap \"tap\")");
  EXPECT_EQ(bad.code(), Code::kOutOfRange);
  Close();
}

TEST_F(CallsOnHost, PlansWhoseOpsAreNotThereAreRefused) {
  EXPECT_SAYS(Open(nullptr),
              "Scale \"scale\": custom op \"test.Scale\", version 1, is in none of the libraries of ops that "
              "were given; "
              "the plan was compiled with libtest.so");
  Close();
  CustomOf(sample_, 2).version = 3;
  const Status other_version = Open(&ops_);
  EXPECT_SAYS(other_version, "custom op \"test.Tap\", version 3");
  EXPECT_EQ(other_version.code(), Code::kUnsupported);
  EXPECT_STREQ(other_version.source_node(), "Tap \"tap\"");
}

TEST_F(CallsOnHost, PlansThatSayOtherThanTheLibraryAreRefused) {
  ArgumentOf(sample_, 0, 2).shape = Shape{2, 2};
  EXPECT_SAYS(Open(&ops_), "output 0 is f32[2, 2] in the plan and f32[4]");
  Close();
  ArgumentOf(sample_, 0, 2).shape = Shape{4};
  CustomOf(sample_, 2).graph_safe = true;
  CustomOf(sample_, 2).reason = "";
  EXPECT_SAYS(Open(&ops_),
              "Tap \"tap\": custom op \"test.Tap\" of libtest.so: the plan was compiled when a graph could");
  Close();
  CustomOf(sample_, 2).graph_safe = false;
  CustomOf(sample_, 2).reason = "r";
  for (uint32_t i : {0u, 2u}) ArgumentOf(sample_, 0, i).dtype = DType::kI32;
  EXPECT_SAYS(Open(&ops_), "it works on f32 only");
}

TEST_F(CallsOnHost, InstancesThatCannotBeMadeFailCreate) {
  CustomAttribute& factor = Edit(sample_.data.custom_ops[0].attributes, 1);
  factor.kind = AttributeKind::kInt;
  factor.floats = {};
  factor.ints = List<int64_t>(sample_.arena, {2});
  const Status status = Open(&ops_);
  EXPECT_SAYS(
      status,
      "Scale \"scale\": custom op \"test.Scale\" of libtest.so: no instance can be made: attribute factor");
  EXPECT_STREQ(status.source_node(), "Scale \"scale\"");
  EXPECT_EQ(CountsOfTestOps().created, CountsOfTestOps().destroyed);
}

// Attributes of every kind arrive as they are in the plan.
TEST(OpNodes, CarryAllAttributes) {
  const Sample s = MakeCallSample();
  Arena arena;
  const rondo_op_node* node = MakeOpNode(s.data.custom_ops[0], "the node", arena);
  ASSERT_NE(node, nullptr);
  EXPECT_STREQ(node->name, "the node");
  ASSERT_EQ(node->num_attributes, 7u);
  const rondo_op_attribute* a = node->attributes;
  EXPECT_EQ(a[0].ints[0], -3);
  EXPECT_EQ(a[1].floats[0], 2);
  EXPECT_STREQ(a[2].texts[0], "first");
  EXPECT_EQ(a[3].count, 3u);
  EXPECT_EQ(a[3].ints[2], 2);
  EXPECT_EQ(a[4].count, 2u);
  EXPECT_EQ(a[4].floats[1], -1);
  EXPECT_EQ(a[5].count, 3u);
  EXPECT_STREQ(a[5].texts[1], "");
  EXPECT_EQ(a[6].kind, RONDO_OP_TENSOR);
  EXPECT_EQ(a[6].count, 4u);
  EXPECT_EQ(a[6].type.dtype, RONDO_OP_I16);
  EXPECT_EQ(a[6].type.dims[0], 2);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a[6].data) % 64, 0u);
  EXPECT_EQ(static_cast<const int16_t*>(a[6].data)[1], 2);
  EXPECT_EQ(node->inputs[1].dtype, RONDO_OP_ABSENT);
  EXPECT_EQ(node->num_outputs, 1u);
  EXPECT_EQ(node->outputs[0].dims[0], 4);
}

}  // namespace
}  // namespace rondo
