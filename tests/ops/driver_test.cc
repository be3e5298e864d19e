// Plans with calls of custom ops that the host driver accepts, and calls inside graphs. tests/conformance
// tests calls on any driver.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "drivers/host/host_driver.h"
#include "tests/ops/call_sessions.h"
#include "tests/says.h"

namespace rondo {
namespace {

class CallsOnHost : public testing::Test {
 protected:
  ~CallsOnHost() override { Close(); }
  void Close() {
    calls_.Close();
    if (driver_ != nullptr) DestroyHostDriver(driver_);
    driver_ = nullptr;
  }
  Status Open(const OpRegistry* ops) {
    HostOptions options;
    options.ops = ops;
    RONDO_ASSIGN_OR_RETURN(driver_, CreateHostDriver(options));
    return calls_.Open(driver_);
  }

  CallSessions calls_;
  Driver* driver_ = nullptr;
};

using Floats = std::vector<float>;

TEST_F(CallsOnHost, AFailureInAGraphNamesItsStep) {
  CustomOf(calls_.sample, 2).graph_safe = true;  // as if the library declared it
  CustomOf(calls_.sample, 2).reason = "";
  Partition& first = Edit(calls_.sample.data.programs[0].partitions, 0);
  first.num_steps = 5;
  ProgramOf(calls_.sample, 0).partitions = calls_.sample.data.programs[0].partitions.subspan(0, 1);
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
  ASSERT_TRUE(calls_.Run({1, 2, 3, 4}, &y).ok());
  EXPECT_EQ(y, (Floats{3, 6, 9, 12}));
  const Status bad = calls_.Run({500, 0, 0, 0}, &y);
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
  CustomOf(calls_.sample, 2).version = 3;
  const Status other_version = Open(&calls_.ops);
  EXPECT_SAYS(other_version, "custom op \"test.Tap\", version 3");
  EXPECT_EQ(other_version.code(), Code::kUnsupported);
  EXPECT_STREQ(other_version.source_node(), "Tap \"tap\"");
}

TEST_F(CallsOnHost, PlansThatSayOtherThanTheLibraryAreRefused) {
  ArgumentOf(calls_.sample, 0, 2).shape = Shape{2, 2};
  EXPECT_SAYS(Open(&calls_.ops), "output 0 is f32[2, 2] in the plan and f32[4]");
  Close();
  ArgumentOf(calls_.sample, 0, 2).shape = Shape{4};
  CustomOf(calls_.sample, 2).graph_safe = true;
  CustomOf(calls_.sample, 2).reason = "";
  EXPECT_SAYS(Open(&calls_.ops),
              "Tap \"tap\": custom op \"test.Tap\" of libtest.so: the plan was compiled when a graph could");
  Close();
  CustomOf(calls_.sample, 2).graph_safe = false;
  CustomOf(calls_.sample, 2).reason = "r";
  for (uint32_t i : {0u, 2u}) ArgumentOf(calls_.sample, 0, i).dtype = DType::kI32;
  EXPECT_SAYS(Open(&calls_.ops), "it works on f32 only");
}

TEST_F(CallsOnHost, InstancesThatCannotBeMadeFailCreate) {
  CustomAttribute& factor = Edit(calls_.sample.data.custom_ops[0].attributes, 1);
  factor.kind = AttributeKind::kInt;
  factor.floats = {};
  factor.ints = List<int64_t>(calls_.sample.arena, {2});
  const Status status = Open(&calls_.ops);
  EXPECT_SAYS(
      status,
      "Scale \"scale\": custom op \"test.Scale\" of libtest.so: no instance can be made: attribute factor");
  EXPECT_STREQ(status.source_node(), "Scale \"scale\"");
  EXPECT_EQ(CountsOfTestOps().created, CountsOfTestOps().destroyed);
}

// An op gets attributes of every kind as the plan has them.
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
