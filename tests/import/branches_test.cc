// Operators of com.microsoft for several residual streams and for gates, with results computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

void ExpectClose(const Numbers& got, const Numbers& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << "at " << i;
}

float Opened(float x) { return 1 / (1 + std::exp(-x)); }

// The result of `op` for these values; the first is an input, the others are constants.
Numbers Given(const std::string& op, const std::vector<std::pair<std::vector<int64_t>, Numbers>>& inputs,
              const std::function<void(onnx::NodeProto*)>& options = {}) {
  ModelMaker m;
  std::vector<std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    names.push_back(inputs[i].second.empty() ? "" : "x" + std::to_string(i));
    if (i == 0) m.Input("x0", inputs[0].first);
    if (i > 0 && !inputs[i].second.empty()) m.Floats(names.back(), inputs[i].first, inputs[i].second);
  }
  onnx::NodeProto* node = Microsoft(m, op, names, {"y"});
  if (options) options(node);
  m.Output("y");
  const Shape shape(Span<const int64_t>(inputs[0].first.data(), inputs[0].first.size()));
  return Evaluate(m, {Data(DType::kF32, shape, inputs[0].second)})[0];
}

TEST(BranchesTest, StreamsAreReducedAndMixed) {
  // Two streams of two features.
  ExpectClose(Given("HyperConnectionPreMix", {{{1, 2, 2}, {1, 2, 3, 4}}, {{1, 2}, {10, 100}}},
                    [](onnx::NodeProto* node) { Set(node, "reduction_scale", 0.5f); }),
              {155, 210});
  // Row c of the mix holds the weights of stream c in each output.
  ExpectClose(
      Given(
          "HyperConnectionPostMix",
          {{{1, 2, 2}, {1, 2, 3, 4}}, {{1, 2}, {5, 6}}, {{1, 2, 1}, {1, 10}}, {{1, 2, 2}, {1, 0.5f, 0, 2}}}),
      {1 + 5, 2 + 6, 0.5f + 6 + 50, 1 + 8 + 60});
  ExpectClose(Given("HyperConnectionPostMix", {{{1, 4}, {1, 2, 3, 4}}, {{1, 2}, {5, 6}}, {{1, 2}, {1, 10}}},
                    [](onnx::NodeProto* node) { Set(node, "num_branches", int64_t{2}); }),
              {6, 8, 53, 64});
  ExpectClose(Given("BranchwiseRMSNorm", {{{1, 4}, {3, 3, -2, 2}}, {{2}, {1, 10}}},
                    [](onnx::NodeProto* node) {
                      Set(node, "num_branches", int64_t{2});
                      Set(node, "epsilon", 1e-12f);
                    }),
              {1, 10, -1, 10});
}

TEST(BranchesTest, GatesOpenWhatTheyAreGivenFor) {
  ExpectClose(Given("GatedAdd", {{{2, 2}, {1, 2, 3, 4}}, {{2, 2}, {1, 1, 2, 2}}, {{2, 1}, {10, 0.5f}}}),
              {11, 12, 4, 5});
  const float open = Opened(1 * 2 + 3 * -1);
  ExpectClose(Given("GatedAdd", {{{1, 2}, {1, 2}}, {{1, 2}, {1, 3}}, {{1, 2}, {1, 3}}, {{2, 1}, {2, -1}}}),
              {1 + open, 2 + 3 * open});
  ExpectClose(Given("ScaledSiLU", {{{2}, {1, -2}}, {{}, {3}}}), {3 * Opened(3), -6 * Opened(-6)});
  // Halves of one input, clamped.
  ExpectClose(Given("SwiGLU", {{{1, 4}, {5, -5, 3, -9}}},
                    [](onnx::NodeProto* node) {
                      Set(node, "limit", 2.0f);
                      Set(node, "activation_alpha", 0.5f);
                      Set(node, "activation_beta", 1.0f);
                    }),
              {2 * Opened(1) * 3, -5 * Opened(-2.5f) * -1});
}

TEST(BranchesTest, WhatDoesNotFitIsRefused) {
  const auto refusal = [](const std::string& op, const std::vector<std::vector<int64_t>>& shapes,
                          int64_t branches) {
    ModelMaker m;
    std::vector<std::string> names;
    for (const auto& shape : shapes) {
      names.push_back("x" + std::to_string(names.size()));
      m.Input(names.back(), shape);
    }
    onnx::NodeProto* node = Microsoft(m, op, names, {"y"});
    if (branches != 0) Set(node, "num_branches", branches);
    m.Output("y");
    return ImportModel(m.Make(), {}, nullptr).status();
  };
  EXPECT_TRUE(Says(refusal("BranchwiseRMSNorm", {{1, 5}}, 2), {"input 0 of shape [1, 5] in 2 branches"}));
  EXPECT_TRUE(Says(refusal("BranchwiseRMSNorm", {{2, 4}, {3}}, 0), {"input 1 of shape [3]"}));
  EXPECT_TRUE(Says(refusal("HyperConnectionPreMix", {{1, 2, 4}, {1, 3}}, 0), {"input 1 of shape [1, 3]"}));
  EXPECT_TRUE(
      Says(refusal("HyperConnectionPostMix", {{1, 2, 4}, {1, 3}, {1, 2}}, 0), {"input 1 of shape [1, 3]"}));
  EXPECT_TRUE(Says(refusal("GatedAdd", {{2, 4}, {2, 4}, {2, 4}}, 0), {"1 without gate_weight"}));
  EXPECT_TRUE(Says(refusal("SwiGLU", {{2, 5}}, 0), {"both halves in one input of shape [2, 5]"}));
}

}  // namespace
}  // namespace rondo
