// The importer's promises for whole models: names, errors, folding, functions, control flow.
#include "compiler/import/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "compiler/import/registry.h"
#include "tests/import/imported.h"
#include "tests/import/model_maker.h"

namespace rondo {
namespace {

TEST(Import, UnknownOperatorsAreListedAllAtOnceWithTheirNodes) {
  ModelMaker m;
  m.Input("x", {2});
  m.Node("Frobnicate", {"x"}, {"a"});
  m.Node("Relu", {"a"}, {"b"});
  m.Node("Twiddle", {"b"}, {"c"})->set_domain("my.ops");
  m.Node("Frobnicate", {"c"}, {"d"});
  m.Node("NeverNeeded", {"d"}, {"e"});
  m.Output("d");
  auto graph = Import(m);
  EXPECT_EQ(graph.status().code(), Code::kUnsupported);
  EXPECT_TRUE(Says(graph.status(), {"ai.onnx::Frobnicate", "\"Frobnicate_a\", \"Frobnicate_d\"",
                                    "my.ops::Twiddle", "\"Twiddle_c\""}));
  EXPECT_EQ(std::strstr(graph.status().message(), "NeverNeeded"), nullptr);
}

TEST(Import, OpenDimsAreNamedAndTakenFromTheOptions) {
  ModelMaker m;
  m.Input("x", {-1, 3});
  m.Node("Relu", {"x"}, {"y"});
  m.Output("y");
  EXPECT_TRUE(Says(Import(m).status(), {"\"N\"", "input \"x\"", "axis 0", "--shape"}));
  ImportOptions options;
  options.symbols["N"] = 5;
  auto graph = Import(m, options);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->node(graph->outputs[0].node).shape, Shape({5, 3}));
}

TEST(Import, ErrorsNameTheNode) {
  ModelMaker m;
  m.Input("x", {2, 3});
  m.Input("y", {4, 5});
  m.Node("MatMul", {"x", "y"}, {"z"});
  m.Output("z");
  auto graph = Import(m);
  EXPECT_TRUE(Says(graph.status(), {"MatMul \"MatMul_z\"", "[2, 3]", "[4, 5]"}));
  EXPECT_STREQ(graph.status().source_node(), "MatMul \"MatMul_z\"");
}

// Nodes may be in any order, like the casts of inputs that converters to f16 put at the end. A cycle is an
// error.
TEST(Import, NodesMayStandInAnyOrderButACircle) {
  ModelMaker m;
  m.Input("x", {2});
  m.Node("Add", {"a", "x"}, {"y"});
  m.Node("Relu", {"x"}, {"a"});
  m.Output("y");
  EXPECT_TRUE(Import(m).ok());
  m.graph()->mutable_node(1)->set_input(0, "y");
  EXPECT_TRUE(Says(Import(m).status(), {"\"Relu_a\"", "value \"y\"", "export the model again"}));
}

TEST(Import, ShapeArithmeticLeavesNoNodes) {
  ModelMaker m;
  m.Input("x", {2, 3, 4});
  m.Node("Shape", {"x"}, {"s"});
  m.Ints("zero", {0});
  m.Ints("minus", {-1});
  m.Node("Gather", {"s", "zero"}, {"rows"});
  m.Node("Concat", {"rows", "minus"}, {"target"})->add_attribute()->set_name("axis");
  m.Node("Reshape", {"x", "target"}, {"y"});
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->node(graph->outputs[0].node).shape, Shape({2, 12}));
  EXPECT_EQ(LiveNodes(*graph, ir::Op::kConstant), 0);
  EXPECT_EQ(LiveNodes(*graph, ir::Op::kView), 1);
  EXPECT_EQ(LiveNodes(*graph, ir::Op::kIndexedRead), 0);
}

TEST(Import, MovementIsOneView) {
  ModelMaker m;
  m.Input("x", {2, 6});
  m.Ints("split", {2, 2, 3});
  m.Ints("axis", {1});
  m.Ints("wide", {1, 3, 4, 2});
  m.Node("Reshape", {"x", "split"}, {"a"});
  m.Node("Transpose", {"a"}, {"b"});
  m.Node("Unsqueeze", {"b", "axis"}, {"c"});
  m.Node("Squeeze", {"c", "axis"}, {"d"});
  m.Node("Flatten", {"d"}, {"e"});
  m.Output("e");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(LiveNodes(*graph, ir::Op::kView), 1);
  std::vector<float> x(12);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  EXPECT_EQ(Evaluate(*graph, x), (std::vector<double>{0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11}));
}

TEST(Import, AnInitializerComesFromTheFileWhoeverReadsItFirst) {
  ModelMaker m;
  m.Input("x", {2});
  m.Floats("w", {2}, {1, 2});
  m.Floats("v", {2}, {1, 2});
  auto* relu = m.Node("Relu", {"x"}, {"a"});
  auto* mark = relu->add_metadata_props();
  mark->set_key("fuse");
  mark->set_value("off");
  m.Node("Add", {"a", "w"}, {"y"});
  m.Output("y");
  m.Output("v");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  int seen = 0;
  for (ir::NodeId id = 0; id < graph->size(); ++id) {
    const ir::Node& n = graph->node(id);
    if (n.op != ir::Op::kConstant || n.name.empty()) continue;
    ++seen;
    EXPECT_EQ(n.sources, std::vector<std::string>{"Initializer \"" + n.name + "\""});
    EXPECT_TRUE(n.annotations.empty());
  }
  EXPECT_EQ(seen, 2);
}

TEST(Import, NodesCarryProvenanceNamesAndAnnotations) {
  ModelMaker m;
  m.Input("x", {2});
  onnx::NodeProto* node = m.Node("Softplus", {"x"}, {"y"});
  auto* entry = node->add_metadata_props();
  entry->set_key("rondo.fuse");
  entry->set_value("off");
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok());
  for (ir::NodeId id = 0; id < graph->size(); ++id) {
    const ir::Node& n = graph->node(id);
    if (n.dead || n.op != ir::Op::kPointwise) continue;
    ASSERT_FALSE(n.sources.empty());
    EXPECT_EQ(n.sources[0], "Softplus \"Softplus_y\"");
    EXPECT_EQ(n.annotations.at("fuse"), "off");
  }
  EXPECT_EQ(graph->node(graph->outputs[0].node).name, "y");
}

TEST(Import, FunctionsAreInlinedWithTheCallersAttributes) {
  ModelMaker m;
  onnx::FunctionProto* f = m.proto.add_functions();
  f->set_name("Leak");
  f->set_domain("local");
  f->add_input("a");
  f->add_output("b");
  f->add_attribute("slope");
  f->add_opset_import()->set_version(20);
  onnx::AttributeProto* reference = ModelMaker::Node(f, "LeakyRelu", {"a"}, {"b"})->add_attribute();
  reference->set_name("alpha");
  reference->set_ref_attr_name("slope");
  m.Input("x", {2});
  onnx::NodeProto* call = m.Node("Leak", {"x"}, {"y"});
  call->set_domain("local");
  call->add_attribute()->set_name("slope");
  call->mutable_attribute(0)->set_f(0.5f);
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {-2, 3}), (std::vector<double>{-1, 3}));
}

TEST(Import, FunctionsThatCallThemselvesAreAnError) {
  ModelMaker m;
  onnx::FunctionProto* f = m.proto.add_functions();
  f->set_name("Again");
  f->add_input("a");
  f->add_output("b");
  f->add_opset_import()->set_version(20);
  ModelMaker::Node(f, "Again", {"a"}, {"b"});
  m.Input("x", {2});
  m.Node("Again", {"x"}, {"y"});
  m.Output("y");
  EXPECT_TRUE(Says(Import(m).status(), {"deep"}));
}

// If with branches x * 2 and x * 3.
void AddIf(ModelMaker* m, const std::string& condition) {
  m->Floats("two", {}, {2});
  m->Floats("three", {}, {3});
  onnx::NodeProto* node = m->Node("If", {condition}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    onnx::AttributeProto* a = node->add_attribute();
    a->set_name(branch);
    ModelMaker::Node(a->mutable_g(), "Mul", {"x", branch[0] == 't' ? "two" : "three"}, {"z"});
    a->mutable_g()->add_output()->set_name("z");
  }
  m->Output("y");
}

TEST(Import, ABranchThatIsRefusedSaysHowToLeaveItOut) {
  ModelMaker m;
  m.Input("x", {1});
  m.Input("wide", {1}, onnx::TensorProto::BOOL);
  AddIf(&m, "wide");
  m.graph()->mutable_node(0)->mutable_attribute(1)->mutable_g()->mutable_node(0)->set_input(1, "nowhere");
  EXPECT_TRUE(Says(Import(m).status(), {"left out if it is not taken for --bind wide=VALUE", "nowhere"}));
}

TEST(Import, IfWithAConstantConditionTakesItsBranch) {
  ModelMaker m;
  m.Input("x", {1});
  m.Bool("yes", false);
  AddIf(&m, "yes");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(LiveNodes(*graph, ir::Op::kPointwise), 1);
  EXPECT_EQ(Evaluate(*graph, {5}), (std::vector<double>{15}));
}

TEST(Import, IfWithADataDependentConditionSelects) {
  ModelMaker m;
  m.Input("x", {1});
  m.Floats("ten", {1}, {10});
  m.Node("Less", {"x", "ten"}, {"small"});
  AddIf(&m, "small");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {5}), (std::vector<double>{10}));
  EXPECT_EQ(Evaluate(*graph, {20}), (std::vector<double>{60}));
}

TEST(Import, LoopsWithAConstantTripCountAreUnrolled) {
  ModelMaker m;
  m.Input("x", {1});
  m.Ints("trips", {3});
  m.Bool("go", true);
  onnx::NodeProto* loop = m.Node("Loop", {"trips", "go", "x"}, {"last", "all"});
  onnx::AttributeProto* a = loop->add_attribute();
  a->set_name("body");
  onnx::GraphProto* body = a->mutable_g();
  for (const char* name : {"i", "c", "v"}) body->add_input()->set_name(name);
  ModelMaker::Node(body, "Identity", {"c"}, {"c_out"});
  ModelMaker::Node(body, "Add", {"v", "v"}, {"v_out"});
  ModelMaker::Node(body, "Identity", {"v_out"}, {"scan"});
  for (const char* name : {"c_out", "v_out", "scan"}) body->add_output()->set_name(name);
  m.Output("all");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {1}), (std::vector<double>{2, 4, 8}));
}

TEST(Import, MissingWeightsBecomeSyntheticOnlyWhenAllowed) {
  ModelMaker m;
  m.Input("x", {1, 4});
  onnx::TensorProto* w = m.graph()->add_initializer();
  w->set_name("w");
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->add_dims(4);
  w->add_dims(2);
  w->set_data_location(onnx::TensorProto::EXTERNAL);
  w->add_external_data()->set_key("location");
  w->mutable_external_data(0)->set_value("absent.bin");
  m.Node("MatMul", {"x", "w"}, {"y"});
  m.Output("y");
  EXPECT_TRUE(Says(Import(m).status(), {"absent.bin", "\"w\""}));
  ImportOptions options;
  options.allow_synthetic = true;
  ImportReport report;
  auto graph = Import(m, options, &report);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(report.synthetic, std::vector<std::string>{"w"});
}

TEST(Import, ATensorWithoutElementsIsAConstant) {
  ModelMaker m;
  m.Input("x", {2, 3});
  m.Ints("zero", {0});
  m.Ints("one", {1});
  m.Node("Slice", {"x", "zero", "zero", "one"}, {"none"});
  onnx::NodeProto* concat = m.Node("Concat", {"none", "x"}, {"y"});
  concat->add_attribute()->set_name("axis");
  concat->mutable_attribute(0)->set_i(1);
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->outputs[0].node, graph->inputs[0].node);
}

TEST(Import, ABoundInputIsANumberFromNowOnAndDecidesBranches) {
  for (const double value : {1.0, 0.0}) {
    ModelMaker m;
    m.Input("x", {2});
    m.Input("use_it", {1}, onnx::TensorProto::BOOL);
    AddIf(&m, "use_it");
    ImportOptions options;
    options.bound_inputs["use_it"] = value;
    auto graph = Import(m, options);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(graph->inputs.size(), 1u);
    EXPECT_EQ(LiveNodes(*graph, ir::Op::kInput), 1);
    EXPECT_EQ(Evaluate(*graph, {1, 2}), (value == 1 ? std::vector<double>{2, 4} : std::vector<double>{3, 6}));
  }
  ModelMaker m;
  m.Input("x", {2}, onnx::TensorProto::INT64);
  m.Node("Neg", {"x"}, {"y"});
  m.Output("y");
  ImportOptions options;
  options.bound_inputs["x"] = 0.5;
  EXPECT_TRUE(Says(Import(m, options).status(), {"input \"x\" is i64 and cannot be 0.5"}));
}

// x W + x A B, where A and B, of rank `rank`, are inputs with default values in the model, as adapters are.
ModelMaker AdaptedModel(int64_t rank) {
  ModelMaker m;
  m.Input("x", {1, 2});
  DescribePort(m.graph()->add_input(), "A", onnx::TensorProto::FLOAT, {"2", "rank"});
  DescribePort(m.graph()->add_input(), "B", onnx::TensorProto::FLOAT, {"rank", "3"});
  m.Floats("W", {2, 3}, {1, 2, 3, 4, 5, 6});
  m.Floats("A", {2, rank}, std::vector<float>(static_cast<size_t>(2 * rank), 1));
  m.Floats("B", {rank, 3}, std::vector<float>(static_cast<size_t>(3 * rank), 10));
  m.Node("MatMul", {"x", "W"}, {"plain"});
  m.Node("MatMul", {"x", "A"}, {"less"});
  m.Node("MatMul", {"less", "B"}, {"more"});
  m.Node("Add", {"plain", "more"}, {"y"});
  m.Output("y");
  return m;
}

TEST(Import, AnInputWithAValueIsAConstantUnlessTheOptionsSayWhatItIs) {
  struct Case {
    int64_t rank;
    std::map<std::string, ir::Size> symbols;
    std::map<std::string, ir::Dims> shapes;
    BoundValues bound;
    size_t inputs;
    std::vector<double> gives;  // the result for 1, 1; empty if there are more inputs
  };
  const std::vector<Case> cases = {
      {0, {}, {}, {}, 1, {5, 7, 9}},
      {1, {}, {}, {}, 1, {25, 27, 29}},
      {0, {{"rank", 4}}, {}, {}, 3, {}},
      {1, {{"rank", 1}}, {}, {}, 1, {25, 27, 29}},
      {1, {}, {{"A", {2, 4}}, {"B", {4, 3}}}, {}, 3, {}},
      {1, {}, {{"A", {2, 1}}}, {}, 2, {}},
      {1, {{"rank", 1}}, {}, {{"A", 2}}, 1, {45, 47, 49}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    ModelMaker m = AdaptedModel(cases[i].rank);
    ImportOptions options;
    options.symbols = cases[i].symbols;
    options.input_shapes = cases[i].shapes;
    options.bound_inputs = cases[i].bound;
    auto graph = Import(m, options);
    ASSERT_TRUE(graph.ok()) << i << ": " << graph.status().message();
    EXPECT_EQ(graph->inputs.size(), cases[i].inputs) << i;
    if (cases[i].gives.empty()) continue;
    EXPECT_EQ(Evaluate(*graph, {1, 1}), cases[i].gives) << i;
  }
}

TEST(Import, AProductOverNoElementsIsZeros) {
  for (const char* op : {"MatMul", "Gemm", "MatMulInteger"}) {
    const int type = std::string(op) == "MatMulInteger" ? onnx::TensorProto::UINT8 : onnx::TensorProto::FLOAT;
    ModelMaker m;
    m.Input("x", {2}, type);
    m.Input("a", {2, 0}, type);
    m.Input("b", {0, 3}, type);
    m.Node(op, {"a", "b"}, {"none"});
    m.Node("Cast", {"none"}, {"y"});
    SetInt(m.graph()->mutable_node(1), "to", onnx::TensorProto::FLOAT);
    m.Output("y");
    auto graph = Import(m);
    ASSERT_TRUE(graph.ok()) << op << graph.status().message();
    std::vector<std::shared_ptr<const ir::ConstantData>> values;
    for (const ir::GraphInput& input : graph->inputs) {
      const ir::Node& node = graph->node(input.node);
      values.push_back(ir::ConstantData::Own(
          node.dtype, node.shape,
          std::vector<uint8_t>(static_cast<size_t>(node.shape.elements()) * ByteSize(node.dtype))));
    }
    auto out = ir::EvaluateGraph(*graph, values);
    ASSERT_TRUE(out.ok()) << op << out.status().message();
    EXPECT_EQ((*out)[0]->shape, (Shape{2, 3}));
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_EQ(scalar::Load<double>((*out)[0]->dtype, (*out)[0]->bytes.data(), i), 0) << op;
  }
}

// An input of the model or a constant, of some type and shape.
void AnyInput(ModelMaker& m, const std::string& name, std::mt19937& random) {
  static constexpr int kTypes[] = {onnx::TensorProto::FLOAT, onnx::TensorProto::INT64,
                                   onnx::TensorProto::UINT8};
  const int type = kTypes[std::min<uint32_t>(random() % 5, 2)];
  std::vector<int64_t> dims(random() % 5, 2);
  if (!dims.empty() && random() % 8 == 0) dims[0] = static_cast<int64_t>(random() % 2);
  if (random() % 2 == 0) return m.Input(name, dims, type);
  onnx::TensorProto* tensor = m.graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  int64_t bytes = type == onnx::TensorProto::INT64 ? 8 : type == onnx::TensorProto::FLOAT ? 4 : 1;
  for (int64_t d : dims) {
    tensor->add_dims(d);
    bytes *= d;
  }
  tensor->set_raw_data(std::string(static_cast<size_t>(bytes), '\1'));
}

// Inputs or attributes that are missing, or have another type or rank: an error or a graph, never a crash.
TEST(Import, NoOperatorTakesInputsOrAttributesForGranted) {
  constexpr int kDraws = 300, kMostInputs = 9;
  std::mt19937 random(5);
  int refused = 0;
  for (const importer::OpRow* row : importer::AllOps()) {
    for (int draw = 0; draw < kDraws; ++draw) {
      ModelMaker m(std::min(row->until, 23));
      std::vector<std::string> inputs(random() % (kMostInputs + 1));
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (random() % 6 == 0) continue;
        inputs[i] = "x" + std::to_string(i);
        AnyInput(m, inputs[i], random);
      }
      m.Node(row->op, inputs, {"y", "y1", "y2"})->set_domain(row->domain);
      m.Output("y");
      SCOPED_TRACE(row->op);
      refused += Import(m).ok() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 10000);
}

TEST(Import, EveryOperatorIsListedOnce) {
  std::vector<std::string> names = ImportableOperators();
  EXPECT_GT(names.size(), 150u);
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace rondo
