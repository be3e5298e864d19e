// The importer's promises for ports with bound values, for types and sequences that plans lack, for unknown
// opsets, and for random numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/import/evaluated_model.h"
#include "tests/import/imported.h"

namespace rondo {
namespace {

Tensor Array(DType dtype, const Shape& shape, const std::vector<int64_t>& values) {
  Tensor tensor{"", dtype, shape, {}};
  tensor.bytes.resize(static_cast<size_t>(shape.elements() * ByteSize(dtype)));
  for (size_t i = 0; i < values.size(); ++i)
    scalar::Store<int64_t>(dtype, tensor.bytes.data(), static_cast<int64_t>(i), values[i]);
  return tensor;
}

ModelMaker PadModel() {
  ModelMaker m;
  m.Input("x", {2});
  m.Input("pads", {2}, onnx::TensorProto::INT64);
  m.Node("Pad", {"x", "pads"}, {"y"});
  m.Output("y");
  return m;
}

TEST(BoundInputs, AnArrayIsAConstantOfItsShape) {
  ModelMaker m = PadModel();
  EXPECT_TRUE(Says(Import(m).status(), {"Pad \"Pad_y\"", "input 1", "\"pads\"", "--bind pads="}));
  ImportOptions options;
  options.bound_inputs.emplace("pads", BoundValue(Array(DType::kF64, {2}, {1, 0})));
  const auto graph = Import(m, options);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->inputs.size(), 1u);
  EXPECT_EQ(Evaluate(*graph, {3, 4}), (std::vector<double>{0, 3, 4}));
  options.bound_inputs.begin()->second = BoundValue(Array(DType::kI64, {3}, {1, 0, 0}));
  EXPECT_TRUE(Says(Import(m, options).status(), {"\"pads\"", "[3]"}));
}

TEST(BoundInputs, OfValuesAtHandThoseAreTakenThatTheCompilerMustKnow) {
  ModelMaker m = PadModel();
  ImportOptions options;
  options.values_at_hand.emplace("x", BoundValue(Array(DType::kF32, {2}, {7, 7})));
  options.values_at_hand.emplace("pads", BoundValue(Array(DType::kI64, {2}, {0, 1})));
  ImportReport report;
  const auto graph = Import(m, options, &report);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(report.frozen, (std::vector<std::string>{"pads"}));
  EXPECT_EQ(Evaluate(*graph, {3, 4}), (std::vector<double>{3, 4, 0}));
}

TEST(BoundInputs, ABranchThatIsNotTakenIsNotJudged) {
  ModelMaker m;
  m.Input("x", {1});
  m.Input("rate", {}, onnx::TensorProto::INT64);
  m.Ints("known", {16000});
  m.Node("Equal", {"rate", "known"}, {"is_known"});
  onnx::NodeProto* node = m.Node("If", {"is_known"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    onnx::AttributeProto* a = node->add_attribute();
    a->set_name(branch);
    ModelMaker::Node(a->mutable_g(), branch[0] == 't' ? "Neg" : "Frobnicate", {"x"}, {"z"});
    a->mutable_g()->add_output()->set_name("z");
  }
  m.Output("y");
  EXPECT_TRUE(Says(Import(m).status(), {"Frobnicate"}));
  ImportOptions options;
  options.bound_inputs["rate"] = 16000;
  const auto graph = Import(m, options);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {5}), (std::vector<double>{-5}));
}

TEST(Opsets, OlderOnesAreTakenWhereNoOperatorChangedAndNewerOnesWithARemark) {
  ModelMaker same(1), changed(5), newer(30);
  for (ModelMaker* m : {&same, &changed, &newer}) {
    m->Input("x", {2});
    m->Node(m == &same ? "Transpose" : "Relu", {"x"}, {"y"});
    m->Output("y");
  }
  EXPECT_TRUE(Import(same).ok());
  EXPECT_TRUE(Says(Import(changed).status(), {"opset 5", "Relu", "6 to 28", "version_converter"}));
  ImportReport report;
  EXPECT_TRUE(Import(newer, {}, &report).ok());
  ASSERT_EQ(report.remarks.size(), 1u);
  EXPECT_NE(report.remarks[0].find("opset 30"), std::string::npos);
}

TEST(EmptySlices, AreCutAlongTheOtherAxesAsWell) {
  ModelMaker m;
  m.Input("x", {4, 5});
  m.Ints("from", {2, 1});
  m.Ints("to", {2, 3});
  m.Ints("axes", {1, 0});
  m.Node("Slice", {"x", "from", "to", "axes"}, {"y"});
  m.Output("y");
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->node(graph->outputs[0].node).shape, Shape({2, 0}));
}

// Ports with one or two codes a byte return the codes that went in.
TEST(NarrowPorts, CodesComeOutAsTheyWentIn) {
  for (const int type : {17, 18, 19, 20, 24, 23, 21, 22, 25, 26}) {
    SCOPED_TRACE(type);
    const int bits = type >= 25 ? 2 : type >= 21 && type <= 23 ? 4 : 8;
    const int64_t count = bits == 8 ? 256 : (1 << bits) + 1;
    ModelMaker m(25);
    m.Input("x", {count}, type);
    onnx::NodeProto* cast = m.Node("Cast", {"x"}, {"wide"});
    Set(cast, "to", static_cast<int64_t>(onnx::TensorProto::FLOAT));
    cast = m.Node("Cast", {"wide"}, {"y"});
    Set(cast, "to", static_cast<int64_t>(type));
    m.Output("y");
    const auto graph = Import(m);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const ir::Node& x = graph->node(graph->inputs[0].node);
    std::vector<uint8_t> codes(static_cast<size_t>((count * bits + 7) / 8));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t code = i & ((1 << bits) - 1);
      codes[static_cast<size_t>(i * bits / 8)] |= static_cast<uint8_t>(code << (i * bits % 8));
    }
    ASSERT_EQ(x.shape.elements(), static_cast<int64_t>(codes.size()));
    const auto out = ir::EvaluateGraph(*graph, {ir::ConstantData::Own(x.dtype, x.shape, codes)});
    ASSERT_TRUE(out.ok()) << out.status().message();
    ASSERT_EQ((*out)[0]->dtype, x.dtype);
    for (size_t i = 0; i < codes.size(); ++i) {
      const double value = scalar::Load<double>(x.dtype, codes.data(), static_cast<int64_t>(i));
      if (!std::isfinite(value)) continue;  // NaN has several codes, and infinity becomes the largest number
      EXPECT_EQ((*out)[0]->bytes[i], codes[i]) << i;
    }
  }
}

TEST(SequencePorts, AreATensorEachAndEmptyOnesAreSaidToBe) {
  ModelMaker m(17);
  auto* of = m.graph()->add_input();
  of->set_name("s");
  of->mutable_type()->mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(1);
  m.Input("x", {2});
  m.Node("SequenceInsert", {"s", "x"}, {"t"});
  m.Output("t");
  EXPECT_TRUE(Says(Import(m).status(), {"\"s\"", "--shape s.0="}));
  ImportOptions options;
  options.input_shapes["s"] = {0};
  auto graph = Import(m, options);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->inputs.size(), 1u);
  options.input_shapes["s.0"] = {3};
  graph = Import(m, options);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  ASSERT_EQ(graph->inputs.size(), 2u);
  EXPECT_EQ(graph->inputs[0].name, "s.0");
  ASSERT_EQ(graph->outputs.size(), 2u);
  EXPECT_EQ(graph->outputs[1].name, "t.1");
}

std::vector<double> Drawn(const std::string& op, const std::vector<std::pair<const char*, float>>& numbers) {
  ModelMaker m(22);
  m.Input("x", {4000});
  onnx::NodeProto* node = m.Node(
      op,
      op == "Bernoulli" || op.ends_with("Like") ? std::vector<std::string>{"x"} : std::vector<std::string>{},
      {"y"});
  for (const auto& [name, value] : numbers) Set(node, name, value);
  if (node->input().empty()) {
    auto* shape = Attribute(node, "shape", onnx::AttributeProto::INTS);
    shape->add_ints(40);
    shape->add_ints(100);
  }
  Set(node, "dtype", static_cast<int64_t>(onnx::TensorProto::DOUBLE));
  m.Output("y");
  const auto graph = Import(m);
  EXPECT_TRUE(graph.ok()) << graph.status().message();
  if (!graph.ok()) return {0};
  return Evaluate(*graph, std::vector<float>(4000, 0.25f));
}

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(RandomNumbers, HaveTheirDistributionAndDependOnTheSeedAlone) {
  for (const char* op : {"RandomUniform", "RandomUniformLike"}) {
    const auto x = Drawn(op, {{"seed", 1.0f}, {"low", 2.0f}, {"high", 6.0f}});
    EXPECT_EQ(x, Drawn(op, {{"seed", 1.0f}, {"low", 2.0f}, {"high", 6.0f}}));
    EXPECT_NE(x, Drawn(op, {{"seed", 2.0f}, {"low", 2.0f}, {"high", 6.0f}}));
    EXPECT_NEAR(MeanOf(x), 4, 0.1);
    EXPECT_GE(*std::min_element(x.begin(), x.end()), 2);
    EXPECT_LE(*std::max_element(x.begin(), x.end()), 6);
  }
  for (const char* op : {"RandomNormal", "RandomNormalLike"}) {
    auto x = Drawn(op, {{"seed", 1.0f}, {"mean", 3.0f}, {"scale", 2.0f}});
    EXPECT_NEAR(MeanOf(x), 3, 0.15);
    for (double& value : x) value = (value - 3) * (value - 3);
    EXPECT_NEAR(MeanOf(x), 4, 0.3);
  }
  EXPECT_NEAR(MeanOf(Drawn("Bernoulli", {{"seed", 4.0f}})), 0.25, 0.03);
}

TEST(RandomNumbers, SamplesOfScoresAndDroppedElementsAreAsOftenAsAsked) {
  ModelMaker m(22);
  m.Input("scores", {1, 2});
  onnx::NodeProto* node = m.Node("Multinomial", {"scores"}, {"y"});
  Set(node, "sample_size", int64_t{4000});
  Set(node, "seed", 1.0f);
  Set(node, "dtype", static_cast<int64_t>(onnx::TensorProto::INT64));
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_NEAR(MeanOf(Evaluate(*graph, {0, std::log(3.0f)})), 0.75, 0.03);

  ModelMaker d(22);
  d.Input("x", {4000});
  d.Floats("ratio", {}, {0.25f});
  d.Bool("training", true);
  d.Node("Dropout", {"x", "ratio", "training"}, {"y"});
  d.Output("y");
  graph = Import(d);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_NEAR(MeanOf(Evaluate(*graph, std::vector<float>(4000, 3))), 3, 0.1);
}

}  // namespace
}  // namespace rondo
