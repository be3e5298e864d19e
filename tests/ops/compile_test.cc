// Models that call custom ops: order, partitions, effects and refusals.
#include "tests/ops/compiled_calls.h"

namespace rondo {
namespace {

TEST_F(CompiledCalls, ThatNoGraphMayContainArePartitionsOfTheirOwn) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Tap", {"n"}, {"t"});
  model_.Node("Abs", {"t"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  const Program& program = compiled_->plan.programs[0];
  size_t alone = 0;
  bool said = false;
  for (const Partition& p : program.partitions) {
    alone += p.num_steps == 1 && program.steps[p.first_step].kind == StepKind::kCustom;
    said |= p.reason == BreakReason::kUnsafeStep &&
            std::string(p.detail).find("(Tap \"Tap_t\") cannot be in a graph: it counts its calls") !=
                std::string::npos;
  }
  EXPECT_EQ(alone, 1u);
  EXPECT_TRUE(said);
  EXPECT_EQ(Run({{"x", {1, -2, 3, -4}}})[0], (Floats{1, 2, 3, 4}));
  EXPECT_EQ(CountsOfTestOps().taps, 1);
}

// A run reports only errors of stream 0.
TEST_F(CompiledCalls, ThatNoGraphMayContainStayOnStreamZero) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Tap", {"n"}, {"t"});
  model_.Node("Abs", {"t"}, {"y"});
  model_.Output("y");
  const auto put_on_stream = [&](onnx::NodeProto& node) {
    onnx::StringStringEntryProto* entry = node.add_metadata_props();
    entry->set_key("stream");
    entry->set_value("1");
  };
  for (onnx::NodeProto& node : *model_.graph()->mutable_node())
    if (node.op_type() != "Tap") put_on_stream(node);
  ASSERT_MADE();
  for (const Step& step : compiled_->plan.programs[0].steps)
    EXPECT_EQ(step.stream, step.kind == StepKind::kCustom ? 0u : 1u);
  EXPECT_EQ(Run({{"x", {1, -2, 3, -4}}})[0], (Floats{1, 2, 3, 4}));

  put_on_stream(*model_.graph()->mutable_node(1));
  const Status made = Compile();
  EXPECT_FALSE(made.ok());
  EXPECT_NE(std::string(made.message()).find("Tap"), std::string::npos) << made.message();
}

// A GPU's graphs cannot contain host functions, whatever the library declares.
TEST_F(CompiledCalls, BreakEveryGraphOfAGpu) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Scale", {"n"}, {"s"});
  model_.Node("Abs", {"s"}, {"y"});
  model_.Output("y");
  targets_ = *ParseTargets("cuda:sm_90a");
  const Status made = Compile();
  if (made.code() == Code::kUnsupported) GTEST_SKIP() << made.message();
  ASSERT_TRUE(made.ok()) << made.message();
  const Program& program = compiled_->plan.programs[0];
  ASSERT_EQ(program.partitions.size(), 3u);
  EXPECT_EQ(program.steps[program.partitions[1].first_step].kind, StepKind::kCustom);
  EXPECT_EQ(program.partitions[1].num_steps, 1u);
  EXPECT_EQ(program.partitions[0].reason, BreakReason::kUnsafeStep);
  EXPECT_EQ(program.partitions[0].detail,
            "step 1 (Scale \"Scale_s\") cannot be in a graph: it runs on the host");
  EXPECT_EQ(program.partitions[1].reason, BreakReason::kUnsafeStep);
  EXPECT_EQ(program.partitions[1].detail,
            "step 1 (Scale \"Scale_s\") cannot share a graph: it runs on the host");
  EXPECT_FALSE(compiled_->plan.custom_ops[0].graph_safe);
  EXPECT_EQ(compiled_->plan.custom_ops[0].reason, "it runs on the host");
}

// Every run computes both branches, but a side effect must happen in only one of them.
TEST_F(CompiledCalls, WithSideEffectsAreRefusedInABranchThatARunDecides) {
  model_.Input("x", {4});
  model_.Input("c", {}, onnx::TensorProto::BOOL);
  onnx::NodeProto* node = model_.Node("If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto* branch = node->add_attribute();
    branch->set_name(name);
    branch->set_type(onnx::AttributeProto::GRAPH);
    const std::string value = std::string(name) + "_value";
    onnx::NodeProto* inner =
        ModelMaker::Node(branch->mutable_g(), *name == 't' ? "Tap" : "Neg", {"x"}, {value});
    if (*name == 't') inner->set_domain("test");
    branch->mutable_g()->add_output()->set_name(value);
  }
  model_.Output("y");
  EXPECT_TRUE(Says(Compile(), {"Tap_then_branch_value", "side effects", "branch of an If", "--bind"}));
}

TEST_F(CompiledCalls, WithSideEffectsRunThoughNothingReadsThem) {
  model_.Input("x", {4});
  model_.Node("Neg", {"x"}, {"n"});
  Call("Tap", {"n"}, {"nobody"});
  Call("Tap", {"n"}, {"nobody_either"});  // an equal call, but a separate one
  Call("Scale", {"x"}, {"dead"});
  model_.Node("Abs", {"x"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(StepsOf(StepKind::kCustom), 2u);
  Run({{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(CountsOfTestOps().taps, 2);
  EXPECT_EQ(CountsOfTestOps().scaled, 0);
}

TEST_F(CompiledCalls, ThatAreEqualAndPureAreOne) {
  model_.Input("x", {4});
  SetFloat(Call("Scale", {"x"}, {"a"}), "factor", 2);
  SetFloat(Call("Scale", {"x"}, {"b"}), "factor", 2);
  SetFloat(Call("Scale", {"x"}, {"c"}), "factor", 3);
  model_.Node("Mul", {"a", "b"}, {"ab"});
  model_.Node("Add", {"ab", "c"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(StepsOf(StepKind::kCustom), 2u);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{7, 22, 45, 76}));
}

TEST_F(CompiledCalls, ShareAnInstanceWhereTheyAreCalledAlike) {
  model_.Input("x", {4});
  SetFloat(Call("Scale", {"x"}, {"a"}), "factor", 2);
  SetFloat(Call("Scale", {"a"}, {"b"}), "factor", 2);
  SetFloat(Call("Scale", {"b"}, {"y"}), "factor", 4);
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(compiled_->plan.custom_ops.size(), 2u);
  EXPECT_EQ(CountsOfTestOps().created, 2);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{16, 32, 48, 64}));
}

TEST_F(CompiledCalls, OfConstantsAreNotFolded) {
  model_.Input("x", {4});
  model_.Floats("w", {4}, {1, 1, 1, 1});
  SetFloat(Call("Scale", {"w"}, {"s"}), "factor", 2);
  model_.Node("Mul", {"x", "s"}, {"y"});
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(StepsOf(StepKind::kCustom), 1u);
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{2, 4, 6, 8}));
}

TEST_F(CompiledCalls, PiecesOfAConcatenationAndPartsOfATensor) {
  model_.Input("x", {2, 2});
  model_.Ints("from", {1});
  model_.Ints("to", {2});
  model_.Ints("axis", {1});
  model_.Node("Slice", {"x", "from", "to", "axis"}, {"column"});  // [2, 1], strided
  SetFloat(Call("Scale", {"column"}, {"scaled"}), "factor", 10);
  onnx::NodeProto* concat = model_.Node("Concat", {"scaled", "column"}, {"y"});
  onnx::AttributeProto* axis = concat->add_attribute();
  axis->set_name("axis");
  axis->set_type(onnx::AttributeProto::INT);
  axis->set_i(1);
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{20, 2, 40, 4}));
}

TEST_F(CompiledCalls, AreImportedInLoopBodies) {
  model_.Input("x", {4});
  model_.Ints("trips", {3});
  model_.Bool("go", true);
  onnx::NodeProto* loop = model_.Node("Loop", {"trips", "go", "x"}, {"y"});
  onnx::AttributeProto* body = loop->add_attribute();
  body->set_name("body");
  body->set_type(onnx::AttributeProto::GRAPH);
  onnx::GraphProto* graph = body->mutable_g();
  for (const char* name : {"i", "keep", "v"}) graph->add_input()->set_name(name);
  SetFloat(ModelMaker::Node(graph, "Scale", {"v"}, {"v2"}), "factor", 2);
  graph->mutable_node(0)->set_domain("test");
  ModelMaker::Node(graph, "Tap", {"v2"}, {"unread"})->set_domain("test");
  ModelMaker::Node(graph, "Identity", {"keep"}, {"keep2"});
  graph->add_output()->set_name("keep2");
  graph->add_output()->set_name("v2");
  model_.Output("y");
  ASSERT_MADE();
  EXPECT_EQ(Run({{"x", {1, 2, 3, 4}}})[0], (Floats{8, 16, 24, 32}));
  EXPECT_EQ(CountsOfTestOps().taps, 3);
}

TEST_F(CompiledCalls, MayBeTheWholeOutput) {
  model_.Input("x", {4});
  Call("Tap", {"x"}, {"y"});  // passes x through: the output is the input
  Call("Scale", {"x"}, {"z"});
  model_.Output("y");
  model_.Output("z");
  ASSERT_MADE();
  const std::vector<Floats> out = Run({{"x", {1, 2, 3, 4}}});
  EXPECT_EQ(out[0], (Floats{1, 2, 3, 4}));
  EXPECT_EQ(out[1], (Floats{1, 2, 3, 4}));
}

TEST_F(CompiledCalls, GiveTheSamePlanEachTime) {
  model_.Input("x", {4});
  SetFloat(Call("Scale", {"x"}, {"a"}), "factor", 2);
  Call("Tap", {"a"}, {"y"});
  model_.Output("y");
  ASSERT_TRUE(Compile().ok());
  std::vector<std::string> texts;
  for (int i = 0; i < 2; ++i) {
    const TemporaryFolder folder;
    const std::string model = folder.File("same.onnx"), plan = folder.File("same.rondo");
    std::ofstream(model, std::ios::binary) << model_.proto.SerializeAsString();
    CompileOptions options;
    options.models = {{"main", model}};
    options.ops = &ops_;
    ASSERT_TRUE(rondo::Compile(options, plan).ok());
    std::ifstream file(plan, std::ios::binary);
    texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  EXPECT_EQ(texts[0], texts[1]);
}

// --- refusals

TEST_F(CompiledCalls, UnknownOperatorsSayHowToAddThem) {
  model_.Input("x", {4});
  Call("Scale", {"x"}, {"y"});
  model_.Output("y");
  use_ops_ = false;
  const Status status = Compile();
  EXPECT_SAYS(status, "test::Scale (\"Scale_y\")");
  EXPECT_SAYS(status, "--ops LIB.so");
}

TEST_F(CompiledCalls, WhatAnOpRefusesNamesItsNode) {
  model_.Input("x", {4}, onnx::TensorProto::INT64);
  Call("Scale", {"x"}, {"y"});
  model_.Output("y");
  const Status status = Compile();
  EXPECT_SAYS(status, "Scale \"Scale_y\": custom op \"test.Scale\" of libtest.so: it works on f32 only");
  EXPECT_STREQ(status.source_node(), "Scale \"Scale_y\"");
}

TEST_F(CompiledCalls, AttributesThatAreGraphsAreRefused) {
  model_.Input("x", {4});
  onnx::AttributeProto* a = Call("Scale", {"x"}, {"y"})->add_attribute();
  a->set_name("body");
  a->set_type(onnx::AttributeProto::GRAPH);
  a->mutable_g();
  model_.Output("y");
  EXPECT_SAYS(Compile(), "Scale \"Scale_y\": attribute \"body\": a custom op takes numbers");
}

TEST_F(CompiledCalls, OfAnotherVersionAreUnknown) {
  model_.proto.mutable_opset_import(1)->set_version(0);
  model_.Input("x", {4});
  Call("Scale", {"x"}, {"y"});
  model_.Output("y");
  EXPECT_SAYS(Compile(), "test::Scale");
}

}  // namespace
}  // namespace rondo
