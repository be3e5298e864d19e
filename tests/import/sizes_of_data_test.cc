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

// The elements of `x` that are greater than 0.
void FindPositive(ModelMaker* m, const std::string& x, const std::string& to) {
  m->Floats(to + "_zero", {}, {0});
  m->Ints(to + "_first", {0});
  m->Node("Greater", {x, to + "_zero"}, {to + "_above"});
  m->Node("NonZero", {to + "_above"}, {to + "_at"});
  m->Node("Squeeze", {to + "_at", to + "_first"}, {to + "_places"});
  m->Node("Gather", {x, to + "_places"}, {to});
}

// The `k` first of the elements found in x [6]; -1: three, or all if there are fewer.
ModelMaker FirstFound(int64_t k, int64_t largest) {
  ModelMaker m;
  m.Input("x", {6});
  FindPositive(&m, "x", "some");
  m.Ints("k", {k < 0 ? 3 : k});
  m.Node("Shape", {"some"}, {"number"});
  m.Node("Min", {"k", "number"}, {"least"});
  SetInt(m.Node("TopK", {"some", k < 0 ? "least" : "k"}, {"values", "places"}), "largest", largest);
  m.Output("values");
  m.Output("places");
  return m;
}

TEST(SizesOfData, TheFirstOfWhatIsFoundAreAsManyAsThereAre) {
  ModelMaker greatest = FirstFound(-1, 1), least = FirstFound(-1, 0);
  const auto by_greatest = Import(greatest), by_least = Import(least);
  ASSERT_TRUE(by_greatest.ok()) << by_greatest.status().message();
  ASSERT_TRUE(by_least.ok()) << by_least.status().message();
  EXPECT_EQ(Outputs(*by_greatest),
            (std::vector<std::string>{"values", "values.size0", "places", "places.size0"}));
  const Doubles many = {4, -5, 2, 7, 2, 5}, two = {-1, 3, -1, -1, 8, 0}, none = {-1, -2, -3, -4, -5, -6};
  using All = std::vector<Doubles>;
  EXPECT_EQ(RunOf(*by_greatest, {many}), (All{{7, 5, 4}, {3}, {2, 4, 0}, {3}}));
  EXPECT_EQ(RunOf(*by_least, {many}), (All{{2, 2, 4}, {3}, {1, 3, 0}, {3}}));
  EXPECT_EQ(RunOf(*by_greatest, {two}), (All{{8, 3, 0}, {2}, {1, 0, 0}, {2}}));
  EXPECT_EQ(RunOf(*by_least, {two}), (All{{3, 8, 0}, {2}, {0, 1, 0}, {2}}));
  EXPECT_EQ(RunOf(*by_least, {none}), (All{{0, 0, 0}, {0}, {0, 0, 0}, {0}}));
}

TEST(SizesOfData, ARunThatFindsFewerThanTheFirstElementsIsAFault) {
  ModelMaker m = FirstFound(2, 1);
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ((*RunOf(*graph, {{4, -5, 2, 7, 2, 5}}))[0], (Doubles{7, 5}));
  EXPECT_TRUE(RunOf(*graph, {{4, -5, 2, -7, -2, -5}}));
  EXPECT_FALSE(RunOf(*graph, {{4, -5, -2, -7, -2, -5}}));
}

// An If of the input "all", whose branches give `yes` and `no`.
void Choose(ModelMaker* m, const std::string& yes, const std::string& no) {
  m->Input("all", {}, onnx::TensorProto::BOOL);
  onnx::NodeProto* pick = m->Node("If", {"all"}, {"y"});
  for (const auto& [name, value] : {std::pair{"then_branch", yes}, {"else_branch", no}}) {
    onnx::AttributeProto* attribute = pick->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::GRAPH);
    ModelMaker::Node(attribute->mutable_g(), "Identity", {value}, {std::string(name) + "_out"});
    attribute->mutable_g()->add_output()->set_name(std::string(name) + "_out");
  }
  m->Output("y");
}

TEST(SizesOfData, BranchesMayDifferInAllLengths) {
  ModelMaker m;
  m.Input("x", {2, 3});
  m.Ints("from", {0, 1});
  m.Ints("to", {1, 3});
  m.Node("Slice", {"x", "from", "to"}, {"part"});
  SetInt(m.Node("Concat", {"x", "x"}, {"twice"}), "axis", 0);
  Choose(&m, "twice", "part");
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Outputs(*graph), (std::vector<std::string>{"y", "y.size0", "y.size1"}));
  const Doubles x = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(RunOf(*graph, {x, {1}}), (std::vector<Doubles>{{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}, {4}, {3}}));
  EXPECT_EQ(RunOf(*graph, {x, {0}}), (std::vector<Doubles>{{2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, {1}, {2}}));
}

TEST(SizesOfData, BranchesMayFindDifferentNumbers) {
  ModelMaker m;
  m.Input("x", {4});
  FindPositive(&m, "x", "some");
  m.Node("Neg", {"x"}, {"minus"});
  FindPositive(&m, "minus", "others");
  Choose(&m, "some", "others");
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(RunOf(*graph, {{1, -2, 3, 4}, {1}}), (std::vector<Doubles>{{1, 3, 4, 0}, {3}}));
  EXPECT_EQ(RunOf(*graph, {{1, -2, 3, 4}, {0}}), (std::vector<Doubles>{{2, 0, 0, 0}, {1}}));
}

// As exporters write boxes[keep], or nothing where there are no boxes.
TEST(SizesOfData, ABranchMayBeEmpty) {
  ModelMaker m;
  m.Input("x", {4});
  FindPositive(&m, "x", "some");
  m.Ints("none", {});
  Choose(&m, "none", "some_places");
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(RunOf(*graph, {{1, -2, 3, 4}, {1}}), (std::vector<Doubles>{{0, 0, 0, 0}, {0}}));
  EXPECT_EQ(RunOf(*graph, {{1, -2, 3, 4}, {0}}), (std::vector<Doubles>{{0, 2, 3, 0}, {3}}));
}

// Boxes of one corner each, of which the second lies over the first.
TEST(SizesOfData, BoxesAreChosenAmongThoseFound) {
  ModelMaker m;
  m.Input("scores", {4});
  m.Floats("boxes", {4, 4}, {0, 0, 2, 2, 0, 0, 2, 2.2f, 5, 5, 6, 6, 8, 8, 9, 9});
  m.Ints("outer", {0, 1});
  m.Ints("front", {0});
  m.Ints("most", {4});
  m.Floats("overlap", {1}, {0.5});
  FindPositive(&m, "scores", "some");
  m.Node("Gather", {"boxes", "some_places"}, {"found"});
  m.Node("Unsqueeze", {"found", "front"}, {"own"});
  m.Node("Unsqueeze", {"some", "outer"}, {"sure"});
  m.Node("NonMaxSuppression", {"own", "sure", "most", "overlap"}, {"y"});
  m.Output("y");
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(RunOf(*graph, {{0.5, 0.6, -1, 0.9}}),
            (std::vector<Doubles>{{0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0}, {2}}));
  EXPECT_EQ(RunOf(*graph, {{0.7, 0.6, 0.9, 0.1}}),
            (std::vector<Doubles>{{0, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0, 0}, {3}}));
}

// As exporters write x[mask] = values: the number of values is counted apart from their places.
TEST(SizesOfData, TheNumberOfTrueElementsIsTheNumberFound) {
  ModelMaker m;
  m.Input("x", {5});
  FindPositive(&m, "x", "some");  // so that `mask` has padding
  m.Floats("three", {}, {3});
  m.Floats("one", {1}, {1});
  m.Ints("all", {-1});
  m.Ints("last", {1});
  m.Node("Greater", {"some", "three"}, {"mask"});
  m.Node("NonZero", {"mask"}, {"at"});
  m.Node("Transpose", {"at"}, {"rows"});
  m.Node("GatherND", {"some", "rows"}, {"large"});
  m.Node("Sub", {"large", "one"}, {"less"});
  m.Node("Reshape", {"mask", "all"}, {"flat"});
  SetInt(m.Node("Cast", {"flat"}, {"ones"}), "to", onnx::TensorProto::INT64);
  m.Node("ReduceSum", {"ones"}, {"number"});
  m.Node("Expand", {"less", "number"}, {"values"});
  m.Node("ScatterND", {"some", "rows", "values"}, {"y"});
  m.Output("y");
  const auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(RunOf(*graph, {{2, -1, 4, 5, 1}}), (std::vector<Doubles>{{2, 3, 4, 1, 0}, {4}}));
}

}  // namespace
}  // namespace rondo
