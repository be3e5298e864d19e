// The meaning of some ONNX operators: sequences, transforms, samples, positions, columns, losses.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>

#include "compiler/import/import.h"
#include "tests/import/imported.h"
#include "tests/import/model_maker.h"

namespace rondo {
namespace {

TEST(OperatorsTest, SoftmaxBeforeOpset13FlattensFromItsAxis) {
  for (int64_t opset : {11, 13}) {
    ModelMaker m(opset);
    m.Input("x", {1, 2, 2});
    onnx::AttributeProto* axis = m.Node("Softmax", {"x"}, {"y"})->add_attribute();
    axis->set_name("axis");
    axis->set_i(1);
    m.Output("y");
    auto graph = Import(m);
    ASSERT_TRUE(graph.ok());
    double each = opset < 13 ? 0.25 : 0.5;
    EXPECT_EQ(Evaluate(*graph, {7, 7, 7, 7}), std::vector<double>(4, each));
  }
}

TEST(OperatorsTest, SequencesAreListsThatTensorOperatorsRefuse) {
  ModelMaker m;
  m.Input("x", {2});
  m.Ints("zero", {0});
  m.Node("SequenceConstruct", {"x", "x"}, {"s"});
  m.Node("SequenceAt", {"s", "zero"}, {"y"});
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {3, 4}), (std::vector<double>{3, 4}));
  m.Node("Relu", {"s"}, {"z"});
  m.Output("z");
  EXPECT_TRUE(Says(Import(m).status(), {"Relu_z", "input 0"}));
}

TEST(OperatorsTest, NegativePlacesInASequenceCountFromItsEnd) {
  ModelMaker m;
  m.Input("x", {1});
  m.Ints("last", {-1});
  m.Node("Neg", {"x"}, {"n"});
  m.Node("SequenceConstruct", {"x", "x"}, {"s"});
  m.Node("SequenceInsert", {"s", "n", "last"}, {"t"});  // x, -x, x
  m.Node("SequenceAt", {"t", "last"}, {"y"});
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {3}), std::vector<double>{3});
}

TEST(OperatorsTest, ATransformAndItsInverseGiveTheSignalBack) {
  for (int64_t n : {6, 7, 420, 512}) {  // in one step and in two
    ModelMaker m;
    m.Input("x", {1, n, 1});
    m.Ints("axis", {1});
    m.Ints("n", {n});
    SetInt(m.Node("DFT", {"x", "", "axis"}, {"f"}), "onesided", 1);
    onnx::NodeProto* back = m.Node("DFT", {"f", "n", "axis"}, {"y"});
    SetInt(back, "onesided", 1);
    SetInt(back, "inverse", 1);
    m.Output("y");
    auto graph = Import(m);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    EXPECT_EQ(graph->node(graph->outputs[0].node).shape, Shape({1, n, 1}));
    std::vector<float> x;
    for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(i * i % 17) - 8);
    std::vector<double> y = Evaluate(*graph, x);
    ASSERT_EQ(y.size(), x.size());
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], x[i], 1e-5);
  }
}

// Lengths of several steps are much faster than one matrix, and most are too long for one.
TEST(OperatorsTest, LongTransformsMatchTheirDefinition) {
  for (int64_t n : {420, 1 << 14}) {
    ModelMaker m;
    m.Input("x", {1, n, 2});
    m.Ints("axis", {1});
    m.Node("DFT", {"x", "", "axis"}, {"y"});
    m.Output("y");
    auto graph = Import(m);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    std::vector<float> x;
    for (int64_t i = 0; i < 2 * n; ++i) x.push_back(static_cast<float>(i * i % 29) / 29);
    const std::vector<double> y = Evaluate(*graph, x);
    ASSERT_EQ(y.size(), x.size());
    for (int64_t k : {int64_t{0}, int64_t{1}, n / 3, n / 2, n - 1}) {
      std::complex<double> sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double turns = static_cast<double>(i * k % n) / static_cast<double>(n);
        const auto at = static_cast<size_t>(2 * i);
        sum += std::complex<double>(x[at], x[at + 1]) * std::polar(1.0, -2 * std::acos(-1.0) * turns);
      }
      EXPECT_NEAR(y[static_cast<size_t>(2 * k)], sum.real(), 1e-6 * static_cast<double>(n)) << n << ", " << k;
      EXPECT_NEAR(y[static_cast<size_t>(2 * k + 1)], sum.imag(), 1e-6 * static_cast<double>(n))
          << n << ", " << k;
    }
  }
}

TEST(OperatorsTest, TransformsOfLargePrimesAreRefused) {
  ModelMaker m;
  m.Input("x", {1, 4099, 2});
  m.Ints("axis", {1});
  m.Node("DFT", {"x", "", "axis"}, {"y"});
  m.Output("y");
  const auto graph = Import(m);
  ASSERT_FALSE(graph.ok());
  EXPECT_NE(std::strstr(graph.status().message(), "a transform of 4099 points: rondo knows"), nullptr);
}

TEST(OperatorsTest, SamplesBetweenElementsWeighTheirNeighbours) {
  ModelMaker m;
  m.Input("x", {1, 1, 1, 3});
  m.Floats("grid", {1, 1, 4, 2}, {-1, 0, -0.5f, 0, 1, 0, 3, 0});
  onnx::NodeProto* zeros = m.Node("GridSample", {"x", "grid"}, {"y"});
  SetInt(zeros, "align_corners", 1);
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {2, 4, 8}), (std::vector<double>{2, 3, 8, 0}));
  zeros->add_attribute()->set_name("padding_mode");
  zeros->mutable_attribute(1)->set_type(onnx::AttributeProto::STRING);
  zeros->mutable_attribute(1)->set_s("reflection");
  graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {2, 4, 8}), (std::vector<double>{2, 3, 8, 2}));
}

TEST(OperatorsTest, PositionsOfLargestElementsCountFromTheStartOfTheInput) {
  ModelMaker m;
  m.Input("x", {1, 2, 4});
  onnx::NodeProto* pool = m.Node("MaxPool", {"x"}, {"", "y"});
  for (const char* name : {"kernel_shape", "strides"}) {
    onnx::AttributeProto* attribute = pool->add_attribute();
    attribute->set_name(name);
    attribute->set_type(onnx::AttributeProto::INTS);
    attribute->add_ints(2);
  }
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {1, 2, 4, 3, -1, -1, -3, -2}), (std::vector<double>{1, 2, 4, 7}));
}

TEST(OperatorsTest, OverlappingColumnsAddUp) {
  ModelMaker m;
  m.Input("x", {1, 2, 3});
  m.Ints("image", {1, 4});
  m.Ints("block", {1, 2});
  m.Node("Col2Im", {"x", "image", "block"}, {"y"});
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(graph->node(graph->outputs[0].node).shape, Shape({1, 1, 1, 4}));
  EXPECT_EQ(Evaluate(*graph, {1, 2, 3, 10, 20, 30}), (std::vector<double>{1, 12, 23, 30}));
}

TEST(OperatorsTest, IgnoredTargetsDoNotCountInAMeanLoss) {
  ModelMaker m;
  m.Input("x", {3, 2});
  m.Ints("target", {1, -1, 0});
  SetInt(m.Node("NegativeLogLikelihoodLoss", {"x", "target"}, {"y"}), "ignore_index", -1);
  m.Output("y");
  auto graph = Import(m);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  EXPECT_EQ(Evaluate(*graph, {0, -2, -7, -7, -4, 0}), std::vector<double>{3});
}

// NaN affects only one element, like infinity.
TEST(OperatorsTest, TopKGivesEveryElementAPlaceOfItsOwn) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const int64_t largest : {1, 0}) {
    ModelMaker m;
    m.Input("x", {2, 5});
    m.Ints("k", {4});
    SetInt(m.Node("TopK", {"x", "k"}, {"values", "places"}), "largest", largest);
    m.Output("places");
    auto graph = Import(m);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    std::vector<double> expected = {1, 2, 4, 0, 0, 1, 3, 4};
    if (largest == 0) expected = {3, 0, 4, 1, 2, 3, 4, 0};
    EXPECT_EQ(Evaluate(*graph, {3, nan, nan, -inf, 5, inf, nan, 0, 1, 1}), expected) << largest;
  }
}

// Rows that are too long to compare all elements: equal elements stay in order, padding is never chosen.
TEST(OperatorsTest, TopKOfLongRows) {
  struct Case {
    int64_t n, k, values;
  };
  for (const Case& t : {Case{2049, 3, 4}, {8193, 40, 1}, {9001, 300, 50}, {20011, 2, 100000}}) {
    for (const bool largest : {true, false}) {
      ModelMaker m;
      m.Input("x", {2, t.n});
      m.Ints("k", {t.k});
      SetInt(m.Node("TopK", {"x", "k"}, {"values", "places"}), "largest", largest ? 1 : 0);
      m.Output("places");
      auto graph = Import(m);
      ASSERT_TRUE(graph.ok()) << graph.status().message();
      std::mt19937 random(static_cast<uint32_t>(t.n));
      std::vector<float> x(static_cast<size_t>(2 * t.n));
      const float last = (largest ? -1 : 1) * std::numeric_limits<float>::infinity();
      for (float& value : x)
        value = t.values == 1 ? last : static_cast<float>(static_cast<int64_t>(random()) % t.values);
      std::vector<double> expected;
      for (int64_t row = 0; row < 2; ++row) {
        const float* first = x.data() + row * t.n;
        std::vector<int64_t> places(static_cast<size_t>(t.n));
        std::iota(places.begin(), places.end(), 0);
        std::stable_sort(places.begin(), places.end(), [&](int64_t a, int64_t b) {
          return largest ? first[a] > first[b] : first[a] < first[b];
        });
        expected.insert(expected.end(), places.begin(), places.begin() + t.k);
      }
      EXPECT_EQ(Evaluate(*graph, x), expected) << t.n << " " << largest;
    }
  }
}

// Each element of the result uses only every stride-th tap.
TEST(OperatorsTest, TransposedConvolutionsMultiplyNoZeros) {
  constexpr int64_t kIn = 5;
  for (const int64_t kernel : {1, 2, 3, 4, 7}) {
    for (const int64_t stride : {1, 2, 3}) {
      ModelMaker m;
      m.Input("x", {1, 1, kIn});
      std::vector<float> taps;
      for (int64_t t = 0; t < kernel; ++t) taps.push_back(static_cast<float>(t + 1));
      m.Floats("w", {1, 1, kernel}, taps);
      onnx::AttributeProto* strides = m.Node("ConvTranspose", {"x", "w"}, {"y"})->add_attribute();
      strides->set_name("strides");
      strides->set_type(onnx::AttributeProto::INTS);
      strides->add_ints(stride);
      m.Output("y");
      auto graph = Import(m);
      ASSERT_TRUE(graph.ok()) << graph.status().message();
      const std::vector<float> x = {3, 1, 4, 1, 5};
      std::vector<double> expected(static_cast<size_t>(stride * (kIn - 1) + kernel), 0);
      for (int64_t i = 0; i < kIn; ++i) {
        for (int64_t t = 0; t < kernel; ++t)
          expected[static_cast<size_t>(stride * i + t)] +=
              static_cast<double>(x[static_cast<size_t>(i)] * taps[static_cast<size_t>(t)]);
      }
      EXPECT_EQ(Evaluate(*graph, x), expected) << kernel << " " << stride;
      int64_t multiplied = 0;
      for (ir::NodeId id = 0; id < graph->size(); ++id) {
        const ir::Node& node = graph->node(id);
        if (node.dead || node.op != ir::Op::kConv) continue;
        const Shape& w = graph->node(node.inputs[1]).shape;
        multiplied += node.shape.elements() * w.elements() / w[0];
      }
      const auto out = static_cast<int64_t>(expected.size());
      EXPECT_LE(stride * multiplied, kernel * (out + 2 * stride)) << kernel << " " << stride;
      EXPECT_EQ(LiveNodes(*graph, ir::Op::kConv), kernel % stride == 0 || kernel < stride ? 1 : 2)
          << kernel << " " << stride;
    }
  }
}

}  // namespace
}  // namespace rondo
