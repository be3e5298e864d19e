// Sizes that depend on data, which import follows through the graph by name
// (compiler/import/sizes_of_data.h).
#include <optional>

#include "tests/import/imported.h"

namespace rondo {
namespace {

using Doubles = std::vector<double>;

ImportOptions Bounds(const std::map<std::string, int64_t>& bounds) {
  ImportOptions options;
  options.bounds = bounds;
  return options;
}

// All outputs for the inputs in order; nullopt if the run has a fault.
std::optional<std::vector<Doubles>> RunOf(const ir::Graph& graph, const std::vector<Doubles>& inputs) {
  ir::Values values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Node& node = graph.node(graph.inputs[i].node);
    std::vector<uint8_t> bytes(inputs[i].size() * static_cast<size_t>(ByteSize(node.dtype)));
    for (size_t k = 0; k < inputs[i].size(); ++k)
      scalar::Store(node.dtype, bytes.data(), static_cast<int64_t>(k), inputs[i][k]);
    values.push_back(ir::ConstantData::Own(node.dtype, node.shape, std::move(bytes)));
  }
  const auto out = ir::EvaluateGraph(graph, values);
  if (!out.ok()) return std::nullopt;
  std::vector<Doubles> all;
  for (const auto& value : *out) {
    Doubles& numbers = all.emplace_back();
    for (int64_t i = 0; i < value->shape.elements(); ++i)
      numbers.push_back(scalar::Load<double>(value->dtype, value->bytes.data(), i));
  }
  return all;
}

std::vector<std::string> Outputs(const ir::Graph& graph) {
  std::vector<std::string> names;
  for (const ir::GraphOutput& output : graph.outputs) names.push_back(output.name);
  return names;
}

// A row repeated `times` times, with the mean over the rows and the softmax across rows.
ModelMaker Repeated() {
  ModelMaker m;
  m.Input("x", {1, 2});
  m.Input("times", {1}, onnx::TensorProto::INT64);
  m.Ints("two", {2});
  m.Ints("first", {0});
  SetInt(m.Node("Concat", {"times", "two"}, {"shape"}), "axis", 0);
  m.Node("Expand", {"x", "shape"}, {"rows"});
  m.Node("ReduceSum", {"rows", "first"}, {"sum"});
  SetInt(m.Node("Softmax", {"rows"}, {"shares"}), "axis", 0);
  m.Output("rows");
  m.Output("sum");
  m.Output("shares");
  return m;
}

TEST(SizesOfData, WhatReadsALengthThatDataDecideSeesNoPadding) {
  ModelMaker m = Repeated();
  ImportReport report;
  const auto graph = Import(m, Bounds({{"Expand_rows", 4}}), &report);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(report.bounds_used, std::set<std::string>{"Expand_rows"});
  EXPECT_EQ(Outputs(*graph),
            (std::vector<std::string>{"rows", "rows.size0", "sum", "shares", "shares.size0"}));
  const auto out = RunOf(*graph, {{3, 5}, {3}});
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[0], (Doubles{3, 5, 3, 5, 3, 5, 0, 0}));
  EXPECT_EQ((*out)[1], Doubles{3});
  EXPECT_EQ((*out)[2], (Doubles{9, 15}));
  for (int i = 0; i < 8; ++i) EXPECT_NEAR((*out)[3][static_cast<size_t>(i)], i < 6 ? 1.0 / 3 : 0, 1e-6);
}

TEST(SizesOfData, ARunThatWantsMoreThanTheBoundIsAFault) {
  ModelMaker m = Repeated();
  const auto graph = Import(m, Bounds({{"rows", 4}}));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_TRUE(RunOf(*graph, {{3, 5}, {4}}));
  EXPECT_FALSE(RunOf(*graph, {{3, 5}, {5}}));
  EXPECT_FALSE(RunOf(*graph, {{3, 5}, {-1}}));
}

TEST(SizesOfData, WithoutABoundTheSentenceNamesTheOption) {
  ModelMaker m = Repeated();
  EXPECT_TRUE(
      Says(Import(m).status(), {"Expand \"Expand_rows\"", "data decide a length", "--bound Expand_rows=N"}));
}

TEST(SizesOfData, AModelThatSaysTheMostNeedsNoBound) {
  ModelMaker m;
  m.Input("x", {5});
  m.Floats("none", {1}, {0});
  m.Node("Greater", {"x", "none"}, {"above"});
  SetInt(m.Node("Cast", {"above"}, {"ones"}), "to", onnx::TensorProto::INT64);
  SetInt(m.Node("ReduceSum", {"ones"}, {"number"}), "keepdims", 1);
  m.Node("ConstantOfShape", {"number"}, {"zeros"});
  m.Node("Cos", {"zeros"}, {"y"});
  m.Output("y");
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto out = RunOf(*graph, {{1, -2, 3, -4, 5}});
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[0], (Doubles{1, 1, 1, 0, 0}));
  EXPECT_EQ((*out)[1], Doubles{3});
}

TEST(SizesOfData, SlicesAreCutAlongSeveralAxes) {
  ModelMaker m;
  m.Input("x", {3, 4});
  m.Input("from", {2}, onnx::TensorProto::INT64);
  m.Input("to", {2}, onnx::TensorProto::INT64);
  m.Ints("axes", {1, 0});
  m.Ints("steps", {2, -1});
  m.Node("Slice", {"x", "from", "to", "axes", "steps"}, {"y"});
  m.Output("y");
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Outputs(*graph), (std::vector<std::string>{"y", "y.size0", "y.size1"}));
  const Doubles x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto out = RunOf(*graph, {x, {1, 9}, {4, -3}});
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[1], Doubles{2});
  EXPECT_EQ((*out)[2], Doubles{2});
  EXPECT_EQ((*out)[0], (Doubles{9, 11, 5, 7, 0, 0}));
}

// Compared with the reference evaluator: half pixels, repeated edges.
TEST(SizesOfData, PicturesAreResizedToSizesOfARun) {
  ModelMaker m;
  m.Input("x", {1, 2});
  m.Input("size", {1}, onnx::TensorProto::INT64);
  onnx::NodeProto* resize = m.Node("Resize", {"x", "", "", "size"}, {"y"});
  onnx::AttributeProto* mode = resize->add_attribute();
  mode->set_name("mode");
  mode->set_type(onnx::AttributeProto::STRING);
  mode->set_s("linear");
  onnx::AttributeProto* axes = resize->add_attribute();
  axes->set_name("axes");
  axes->set_type(onnx::AttributeProto::INTS);
  axes->add_ints(1);
  m.Output("y");
  const auto graph = Import(m, Bounds({{"y", 6}}));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto out = RunOf(*graph, {{0, 4}, {4}});
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[0], (Doubles{0, 1, 3, 4, 0, 0}));
  EXPECT_EQ((*out)[1], Doubles{4});
}

// Two lengths from the same number are equal, so values with these lengths can be combined.
TEST(SizesOfData, OneNumberIsOneLength) {
  ModelMaker m;
  m.Input("x", {1});
  m.Input("n", {}, onnx::TensorProto::INT64);
  m.Ints("axis", {0});
  m.Ints("start", {0});
  m.Ints("step", {1});
  m.Node("Unsqueeze", {"n", "axis"}, {"shape"});
  m.Node("Squeeze", {"start"}, {"from"});
  m.Node("Squeeze", {"step"}, {"by"});
  m.Node("Range", {"from", "n", "by"}, {"places"});
  SetInt(m.Node("Cast", {"places"}, {"numbers"}), "to", onnx::TensorProto::FLOAT);
  m.Node("Expand", {"x", "shape"}, {"row"});
  m.Node("Add", {"row", "numbers"}, {"y"});
  m.Output("y");
  m.Node("ReduceMax", {"y"}, {"most"});
  m.Output("most");
  const auto graph = Import(m, Bounds({{"places", 5}, {"row", 5}}));
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  const auto out = RunOf(*graph, {{-7}, {3}});
  ASSERT_TRUE(out);
  EXPECT_EQ((*out)[0], (Doubles{-7, -6, -5, 0, 0}));
  EXPECT_EQ((*out)[2], Doubles{-5});
}

TEST(SizesOfData, WhatMixesAlongSuchALengthIsRefusedWithItsNode) {
  ModelMaker m = Repeated();
  m.Ints("behind", {7});
  m.Node("Concat", {"times", "two"}, {"flat"})->add_attribute()->set_name("axis");
  m.Node("TopK", {"sum", "two"}, {"unused", "order"});
  SetInt(m.Node("ArgMax", {"rows"}, {"last"}), "select_last_index", 1);
  m.Output("last");
  EXPECT_TRUE(Says(Import(m, Bounds({{"rows", 4}})).status(),
                   {"ArgMax \"ArgMax_last\"", "looks for the last of equal elements", "--bind"}));
}

}  // namespace
}  // namespace rondo
