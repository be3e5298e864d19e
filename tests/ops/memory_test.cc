// The memory that compiled calls read and write: parts of other values' memory, states and tensors changed in
// place, and copies where in-place is not safe.
#include "tests/ops/compiled_calls.h"

namespace rondo {
namespace {

TEST_F(CompiledCalls, StandBetweenKernels) {
  model_.Input("x", {2, 2});
  model_.Input("bias", {2, 2});
  model_.Node("Add", {"x", "x"}, {"sum"});
  model_.Node("Transpose", {"sum"}, {"turned"});  // the call reads it densely
  SetFloat(Call("Scale", {"turned", "bias"}, {"scaled"}), "factor", 3);
  model_.Node("Neg", {"scaled"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(StepsOf(StepKind::kCustom), 1u);
  EXPECT_EQ(compiled_->plan.programs[0].partitions.size(), 1u);
  const std::vector<Floats> out = Run({{"x", {1, 2, 3, 4}}, {"bias", {10, 20, 30, 40}}});
  EXPECT_EQ(out[0], (Floats{-16, -38, -42, -64}));
}

TEST_F(CompiledCalls, ReadAndWriteRunsOfOthersMemory) {
  g_elements = 16;
  model_.Input("x", {2, 16});
  model_.Node("Neg", {"x"}, {"t"});
  model_.Ints("one", {1});
  model_.Ints("two", {2});
  model_.Node("Slice", {"t", "one", "two"}, {"row"});
  Call("Split", {"row"}, {"half", "more"});
  onnx::AttributeProto* axis = model_.Node("Concat", {"half", "more"}, {"c"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  model_.Node("Add", {"c", "t"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  const Program& program = compiled_->plan.programs[0];
  ASSERT_EQ(program.steps.size(), 3u) << "nothing is copied";
  const Span<const Binding> call = program.steps[1].bindings;
  EXPECT_EQ(call[0].offset, 64u);
  EXPECT_EQ(call[1].buffer, call[2].buffer);
  EXPECT_EQ(call[2].offset, 64u);
  Floats x(32);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Floats y = Run({{"x", x}})[0];
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(y[i], -x[16 + i] / 2 - x[i]);
    EXPECT_EQ(y[16 + i], -x[16 + i] + 1 - x[16 + i]);
  }
  g_elements = 4;
}

TEST_F(CompiledCalls, WhatIsPutBesideOthersInAnotherOrderIsCopied) {
  g_elements = 64;
  model_.Input("x", {4, 16});
  Call("Split", {"x"}, {"half", "more"});
  model_.Node("Transpose", {"half"}, {"th"});
  model_.Node("Transpose", {"more"}, {"tm"});
  onnx::AttributeProto* axis = model_.Node("Concat", {"th", "tm"}, {"y"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  model_.Output("y");
  ASSERT_MADE();
  Floats x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Floats y = Run({{"x", x}})[0];
  for (size_t row = 0; row < 16; ++row) {
    for (size_t column = 0; column < 4; ++column) {
      EXPECT_EQ(y[4 * row + column], x[16 * column + row] / 2);
      EXPECT_EQ(y[64 + 4 * row + column], x[16 * column + row] + 1);
    }
  }
  g_elements = 4;
}

TEST_F(CompiledCalls, ChangeAStateInPlace) {
  model_.Input("x", {4});
  model_.Input("total", {4});
  Call("Accumulate", {"total", "x"}, {"total_out"});
  model_.Node("Neg", {"total_out"}, {"y"});
  model_.Output("y");
  model_.Output("total_out");
  ASSERT_MADE();
  const PlanData& plan = compiled_->plan;
  ASSERT_EQ(plan.programs[0].steps.size(), 2u);  // the call and the negation: nothing is copied
  const Step& call = plan.programs[0].steps[0];
  EXPECT_EQ(plan.buffers[call.bindings[0].buffer].kind, BufferKind::kState);
  EXPECT_EQ(call.bindings[0].buffer, call.bindings[2].buffer);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{-1, -2, -3, -4}));
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{-2, -4, -6, -8}));
  EXPECT_EQ(State("total"), (Floats{2, 4, 6, 8}));
}

TEST_F(CompiledCalls, ChangeAStateTwiceAfterWhoReadsItsOldContents) {
  model_.Input("x", {4});
  model_.Input("total", {4});
  Call("Accumulate", {"total", "x"}, {"once"});
  Call("Accumulate", {"once", "x"}, {"total_out"});
  model_.Node("Neg", {"total"}, {"before"});
  model_.Node("Mul", {"once", "once"}, {"between"});
  model_.Output("before");
  model_.Output("between");
  model_.Output("total_out");
  ASSERT_MADE();
  EXPECT_EQ(compiled_->plan.programs[0].steps.size(), 4u);
  Run({{"x", {1, 1, 1, 1}}});
  const std::vector<Floats> out = Run({{"x", {1, 1, 1, 1}}});
  EXPECT_EQ(out[0], (Floats{-2, -2, -2, -2}));
  EXPECT_EQ(out[1], (Floats{9, 9, 9, 9}));
  EXPECT_EQ(State("total"), (Floats{4, 4, 4, 4}));
}

// A reader of the old state also needs the call's result, so it comes after the call. Then the call cannot
// change the state itself.
TEST_F(CompiledCalls, ChangeACopyOfAStateThatIsReadTooLate) {
  model_.Input("x", {4});
  model_.Input("total", {4});
  Call("Accumulate", {"total", "x"}, {"total_out"});
  model_.Node("Sub", {"total_out", "total"}, {"difference"});
  model_.Output("difference");
  model_.Output("total_out");
  ASSERT_MADE();
  Run({{"x", {5, 6, 7, 8}}});
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{1, 2, 3, 4}));
  EXPECT_EQ(State("total"), (Floats{6, 8, 10, 12}));
}

TEST_F(CompiledCalls, ReadAStateThatTheyChange) {
  model_.Input("x", {4});
  model_.Input("total", {4});
  Call("Accumulate", {"total", "total"}, {"doubled"});
  Call("Accumulate", {"doubled", "x"}, {"total_out"});
  model_.Output("total_out");
  ASSERT_MADE();
  Run({{"x", {1, 2, 3, 4}}});
  Run({{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(State("total"), (Floats{3, 6, 9, 12}));
}

TEST_F(CompiledCalls, NeverChangeInputsConstantsOrWhatOthersRead) {
  model_.Input("x", {4});
  model_.Floats("w", {4}, {10, 20, 30, 40});
  Call("Accumulate", {"x", "w"}, {"a"});  // an input
  Call("Accumulate", {"w", "x"}, {"b"});  // a constant
  model_.Node("Neg", {"x"}, {"n"});
  Call("Accumulate", {"n", "x"}, {"zero"});  // others read n
  model_.Node("Mul", {"n", "w"}, {"c"});
  Call("Accumulate", {"zero", "zero"}, {"still"});  // the call reads the same value it changes
  for (const char* name : {"a", "b", "c", "zero", "still"}) model_.Output(name);
  ASSERT_MADE();
  for (int round = 0; round < 2; ++round) {
    const std::vector<Floats> out = Run({{"x", {1, 2, 3, 4}}});
    EXPECT_EQ(out[0], (Floats{11, 22, 33, 44}));
    EXPECT_EQ(out[1], (Floats{11, 22, 33, 44}));
    EXPECT_EQ(out[2], (Floats{-10, -40, -90, -160}));
    EXPECT_EQ(out[3], (Floats{0, 0, 0, 0}));
    EXPECT_EQ(out[4], (Floats{0, 0, 0, 0}));
  }
}

TEST_F(CompiledCalls, ChangeWhatTheyAloneReadInPlace) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Accumulate", {"n", "x"}, {"a"});
  Call("Accumulate", {"a", "x"}, {"b"});
  model_.Output("b");
  ASSERT_MADE();
  EXPECT_EQ(compiled_->plan.programs[0].steps.size(), 3u);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{1, 2, 3, 4}));
}

TEST_F(CompiledCalls, ChangeOneTensorInTurnAndCopyItOnce) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Accumulate", {"n", "x"}, {"zero"});
  Call("Accumulate", {"n", "n2"}, {"b"});
  model_.Node("Mul", {"x", "x"}, {"n2"});
  std::swap(*model_.graph()->mutable_node(2), *model_.graph()->mutable_node(3));
  model_.Node("Abs", {"n"}, {"p"});  // also reads the old value
  for (const char* name : {"zero", "b", "p"}) model_.Output(name);
  ASSERT_MADE();
  EXPECT_EQ(StepsOf(StepKind::kCustom), 2u);
  EXPECT_LE(compiled_->plan.programs[0].steps.size(), 4u)
      << "one kernel computes what they read, and the copy";
  const std::vector<Floats> out = Run({{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(out[0], (Floats{0, 0, 0, 0}));
  EXPECT_EQ(out[1], (Floats{0, 2, 6, 12}));
  EXPECT_EQ(out[2], (Floats{1, 2, 3, 4}));
}

TEST_F(CompiledCalls, ChangeDisjointPartsOfATensorWhereTheyLie) {
  g_elements = 32;
  model_.Input("x", {3, 32});
  model_.Node("Neg", {"x"}, {"n"});
  const auto row = [&](const char* name, int64_t at) {
    model_.Ints(std::string(name) + "_from", {at});
    model_.Ints(std::string(name) + "_to", {at + 1});
    model_.Node("Slice", {"n", std::string(name) + "_from", std::string(name) + "_to"}, {name});
  };
  row("a", 0);
  row("b", 1);
  row("c", 2);
  for (const char* name : {"a", "b", "c"}) Call("Reverse", {name}, {std::string(name) + "r"});
  onnx::AttributeProto* axis = model_.Node("Concat", {"ar", "br", "cr"}, {"joined"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  model_.Node("Abs", {"joined"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(compiled_->plan.programs[0].steps.size(), 5u) << "Neg, three calls, Abs: nothing is copied";
  Floats x(96);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Floats y = Run({{"x", x}})[0];
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], x[i / 32 * 32 + 31 - i % 32]);
  g_elements = 4;
}

// The caller's tensor is copied once, where the parts are joined again.
TEST_F(CompiledCalls, ChangeDisjointPartsOfAnInputInOneCopy) {
  g_elements = 32;
  model_.Input("x", {2, 32});
  model_.Ints("zero", {0});
  model_.Ints("one", {1});
  model_.Ints("two", {2});
  model_.Node("Slice", {"x", "zero", "one"}, {"a"});
  model_.Node("Slice", {"x", "one", "two"}, {"b"});
  Call("Reverse", {"a"}, {"ar"});
  Call("Reverse", {"b"}, {"br"});
  onnx::AttributeProto* axis = model_.Node("Concat", {"ar", "br"}, {"y"})->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(0);
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(compiled_->plan.programs[0].steps.size(), 3u)
      << "one kernel copies both parts, right into the output";
  Floats x(64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Floats y = Run({{"x", x}})[0];
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], x[i / 32 * 32 + 31 - i % 32]);
  g_elements = 4;
}

TEST_F(CompiledCalls, HaveSeveralOutputs) {
  model_.Input("x", {4});
  Call("Split", {"x"}, {"half", "more"});
  Call("Split", {"half"}, {"quarter", "unused"});
  Call("Swap", {"more", "quarter"}, {"q", "m"});
  model_.Output("q");
  model_.Output("m");
  model_.Output("half");
  ASSERT_MADE();
  const std::vector<Floats> out = Run({{"x", {4, 8, 12, 16}}});
  EXPECT_EQ(out[0], (Floats{1, 2, 3, 4}));
  EXPECT_EQ(out[1], (Floats{5, 9, 13, 17}));
  EXPECT_EQ(out[2], (Floats{2, 4, 6, 8}));
}

// Workspace lies in the arena, and is free again after its call.
TEST_F(CompiledCalls, WorkInMemoryOfThePlan) {
  g_elements = 64;
  model_.Input("x", {64});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Reverse", {"n"}, {"r"});
  model_.Node("Abs", {"r"}, {"p"});
  Call("Reverse", {"p"}, {"q"});
  model_.Node("Neg", {"q"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  const PlanData& plan = compiled_->plan;
  ASSERT_EQ(plan.custom_ops.size(), 1u);
  ASSERT_EQ(plan.custom_ops[0].arguments.size(), 3u);
  EXPECT_TRUE(plan.custom_ops[0].IsWorkspace(2));
  EXPECT_EQ(plan.programs[0].arena_bytes, 2u * 256) << "what is changed, and the workspace of both calls";
  Floats x(64), wanted(64);
  for (size_t i = 0; i < 64; ++i) x[i] = static_cast<float>(i), wanted[i] = -x[i];
  EXPECT_EQ(Run({{"x", x}})[0], wanted);
  g_elements = 4;
}

// A tensor that is passed twice to an op that changes both arguments becomes two tensors.
TEST_F(CompiledCalls, ChangeOneTensorTwiceAsTwoTensors) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Accumulate", {"n", "n"}, {"doubled"});
  model_.Node("Abs", {"x"}, {"p"});
  Call("Swap", {"p", "p"}, {"a", "b"});
  Call("Accumulate", {"a", "x"}, {"a2"});
  model_.Output("doubled");
  model_.Output("a2");
  model_.Output("b");
  ASSERT_MADE();
  const std::vector<Floats> out = Run({{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(out[0], (Floats{-2, -4, -6, -8}));
  EXPECT_EQ(out[1], (Floats{2, 4, 6, 8}));
  EXPECT_EQ(out[2], (Floats{1, 2, 3, 4}));
}

}  // namespace
}  // namespace rondo
