// Operators that exporters of language models emit, compared with the same built from basic operators.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/import/import.h"
#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

TEST(FusedOperators, AnActivationComesLastWithItsNumbers) {
  ModelMaker m;
  m.Input("a", {1, 2});
  m.Floats("b", {2, 2}, {1, 0, 0, 1});
  onnx::NodeProto* node = Microsoft(m, "FusedGemm", {"a", "b"}, {"y"});
  Attribute(node, "activation", onnx::AttributeProto::STRING)->set_s("LeakyRelu");
  Set(node, "activation_alpha", 0.5f);
  m.Output("y");
  ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 2}, Numbers{-2, 3})})[0], {-1, 3});
}

TEST(FusedOperators, AnUnknownActivationIsRefusedByName) {
  ModelMaker m;
  m.Input("a", {1, 2});
  m.Floats("b", {2, 2}, {1, 0, 0, 1});
  onnx::NodeProto* node = Microsoft(m, "FusedGemm", {"a", "b"}, {"y"});
  Attribute(node, "activation", onnx::AttributeProto::STRING)->set_s("Mystery");
  m.Output("y");
  EXPECT_TRUE(
      Says(ImportModel(m.Make(), {}, nullptr).status(), {"FusedGemm_y", "\"Mystery\"", "without fused"}));
}

TEST(QuantisedOperators, RoundToTheResultsScaleAndSaturate) {
  ModelMaker m;
  m.Input("a", {3}, onnx::TensorProto::UINT8);
  m.Input("b", {3}, onnx::TensorProto::UINT8);
  m.Floats("half", {}, {0.5f});
  m.Floats("one", {}, {1});
  Bytes(m, "ten", {}, std::string(1, '\n'));
  Microsoft(m, "QLinearAdd", {"a", "half", "ten", "b", "one", "", "one", "ten"}, {"y"});
  m.Node("Cast", {"y"}, {"wide"});
  Set(m.graph()->mutable_node(1), "to", int64_t{onnx::TensorProto::FLOAT});
  m.Output("wide");
  // (a - 10) / 2 + b + 10
  ExpectNear(Evaluate(m, {Data(DType::kU8, {3}, std::vector<uint8_t>{10, 14, 255}),
                          Data(DType::kU8, {3}, std::vector<uint8_t>{1, 0, 250})})[0],
             {11, 12, 255});
}

// transB has no effect on a vector.
TEST(FusedOperators, AVectorIsARowOrAColumn) {
  ModelMaker m;
  m.Input("a", {2});
  m.Floats("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  m.Floats("b", {3}, {1, 0, 2});
  Set(Microsoft(m, "FusedMatMul", {"a", "w"}, {"y"}), "alpha", 0.5f);
  Set(Microsoft(m, "FusedMatMul", {"y", "b"}, {"z"}), "transB", int64_t{1});
  m.Output("y");
  m.Output("z");
  const auto out = Evaluate(m, {Data(DType::kF32, {2}, Numbers{2, 4})});
  EXPECT_EQ(out.size(), 2u);
  ExpectNear(out[0], {9, 12, 15});
  ExpectNear(out[1], {39});
}

TEST(SkipNormalizationTest, TheSimplifiedFormGivesStatisticsToo) {
  ModelMaker m;
  m.Input("x", {1, 2, 2});
  m.Floats("skip", {2, 2}, {1, 1, 1, 1});
  m.Floats("gamma", {2}, {1, 1});
  Microsoft(m, "SkipSimplifiedLayerNormalization", {"x", "skip", "gamma"}, {"y", "mean", "inverse"});
  m.Output("mean");
  m.Output("inverse");
  const auto out = Evaluate(m, {Data(DType::kF32, {1, 2, 2}, Numbers{1, 1, 4, 4})});
  ExpectNear(out[0], {0, 0});
  ExpectNear(out[1], {0.5f, 0.2f});
}

TEST(CausalConvWithStateTest, GoesOnWhereTheLastRunEnded) {
  ModelMaker m;
  m.Input("x", {1, 1, 2});
  m.Input("past", {1, 1, 2});
  m.Floats("w", {1, 1, 3}, {1, 10, 100});
  Microsoft(m, "CausalConvWithState", {"x", "w", "", "past"}, {"y", "present"});
  m.Output("y");
  m.Output("present");
  const auto out =
      Evaluate(m, {Data(DType::kF32, {1, 1, 2}, Numbers{3, 4}), Data(DType::kF32, {1, 1, 2}, Numbers{1, 2})});
  ExpectNear(out[0], {321, 432});
  ExpectNear(out[1], {3, 4});
}

// channels_last with two channel axes: [b, l, 2, 1].
TEST(CausalConvWithStateTest, ChannelsMayLieAlongSeveralAxes) {
  ModelMaker m;
  m.Input("x", {1, 2, 2, 1});
  m.Input("past", {1, 1, 2, 1});
  m.Floats("w", {2, 1, 2}, {1, 10, 2, 20});
  onnx::NodeProto* node = Microsoft(m, "CausalConvWithState", {"x", "w", "", "past"}, {"y", "present"});
  Set(node, "channels_last", int64_t{1});
  m.Output("y");
  m.Output("present");
  const auto out = Evaluate(m, {Data(DType::kF32, {1, 2, 2, 1}, Numbers{1, 2, 3, 4}),
                                Data(DType::kF32, {1, 1, 2, 1}, Numbers{5, 6})});
  ExpectNear(out[0], {15, 52, 31, 84});
  ExpectNear(out[1], {3, 4});
}

TEST(ExpertsTest, TheBestOnesShareATokenByTheirScores) {
  ModelMaker m;
  m.Input("x", {1, 1});
  m.Input("router", {1, 3});
  m.Floats("fc1", {3, 1, 1}, {1, 2, 3});
  m.Floats("fc2", {3, 1, 1}, {1, 10, 100});
  onnx::NodeProto* node = Microsoft(m, "MoE", {"x", "router", "fc1", "", "fc2"}, {"y"});
  Set(node, "k", int64_t{2});
  Set(node, "normalize_routing_weights", int64_t{1});
  m.Output("y");
  // Scores of log 1, log 3 and almost none give a quarter of expert 0 and three quarters of expert 1.
  const Numbers router = {0, std::log(3.0f), -50};
  const auto y = Evaluate(m, {Data(DType::kF32, {1, 1}, Numbers{2}), Data(DType::kF32, {1, 3}, router)})[0];
  ExpectNear(y, {0.25f * 2 + 0.75f * 40});
}

TEST(ExpertsTest, WeightsThatAreMissingAreNamed) {
  ModelMaker m;
  m.Input("x", {1, 2});
  m.Input("router", {1, 2});
  m.Floats("fc1", {2, 2, 2}, Numbers(8, 1));
  Microsoft(m, "MoE", {"x", "router", "fc1"}, {"y"});
  m.Output("y");
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"MoE \"MoE_y\"", "input 4 is missing"}));
}

TEST(EmbedLayerNormalizationTest, TablesThatAreMissingAreNamed) {
  ModelMaker m;
  m.Input("ids", {1, 2}, onnx::TensorProto::INT32);
  for (const char* table : {"word", "position"}) m.Floats(table, {3, 2}, Numbers(6, 1));
  m.Floats("gamma", {2}, {1, 1});
  Microsoft(m, "EmbedLayerNormalization", {"ids", "", "word", "position", "", "gamma"}, {"y", "count"});
  m.Output("y");
  EXPECT_TRUE(
      Says(ImportModel(m.Make(), {}, nullptr).status(), {"EmbedLayerNormalization", "input 6 is missing"}));
}

TEST(LinearAttentionTest, GatesBecomeDecayAndBeta) {
  ModelMaker m;
  m.Input("a", {1, 2, 1});
  m.Input("b", {1, 2, 1});
  m.Floats("bias", {1}, {1});
  m.Floats("scale", {1}, {-2});
  Microsoft(m, "LinearAttentionGate", {"a", "bias", "scale", "b"}, {"decay", "beta"});
  m.Output("decay");
  m.Output("beta");
  const auto out = Evaluate(
      m, {Data(DType::kF32, {1, 2, 1}, Numbers{-1, 99}), Data(DType::kF32, {1, 2, 1}, Numbers{0, 99})});
  ExpectNear(out[0], {-2 * std::log(2.0f), -200});
  ExpectNear(out[1], {0.5f, 1});
}

TEST(GatedRMSNormTest, NormalisesEachRunAndGatesIt) {
  for (const char* activation : {"silu", "swish", "sigmoid"}) {
    ModelMaker m;
    m.Input("x", {1, 4});
    m.Input("gate", {1, 4});
    m.Floats("scale", {2}, {1, 10});
    Set(Microsoft(m, "GatedRMSNorm", {"x", "scale", "gate"}, {"y"}), "activation", std::string(activation));
    m.Output("y");
    const Numbers x = {3, 3, 5, -5}, gate(4, 2);
    const float open = 1 / (1 + std::exp(-2.0f));
    const float by = std::string(activation) == "sigmoid" ? open : 2 * open;
    ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 4}, x), Data(DType::kF32, {1, 4}, gate)})[0],
               {by, 10 * by, by, -10 * by});
  }
}

// As in Qwen3.5, queries and keys have fewer heads than values.
TEST(LinearAttentionTest, KeysMayHaveFewerHeadsThanValues) {
  const auto run = [](bool repeated) {
    ModelMaker m;
    m.Input("q", {1, 3, 4});
    m.Input("k", {1, 3, 4});
    m.Input("v", {1, 3, 12});
    m.Floats("decay", {1, 3, 4}, Numbers(12, -0.3f));
    m.Floats("beta", {1, 3, 4}, Numbers(12, 0.7f));
    m.Ints("each", {0, 1, 0, 1, 2, 3, 2, 3});
    onnx::NodeProto* gather = m.Node("Gather", {"k", "each"}, {"keys"});
    Set(gather, "axis", int64_t{2});
    onnx::NodeProto* node = Microsoft(
        m, "LinearAttention", {"q", repeated ? "keys" : "k", "v", "", "decay", "beta"}, {"y", "present"});
    Set(node, "q_num_heads", int64_t{2});
    Set(node, "kv_num_heads", int64_t{4});
    m.Output("y");
    return Evaluate(m,
                    {Data(DType::kF32, {1, 3, 4}, Random(12, 1)), Data(DType::kF32, {1, 3, 4}, Random(12, 2)),
                     Data(DType::kF32, {1, 3, 12}, Random(36, 3))})[0];
  };
  ExpectNear(run(false), run(true));
}

TEST(LinearAttentionTest, TheStateRemembersAndDecays) {
  ModelMaker m;
  m.Input("x", {1, 2, 1});
  m.Input("past", {1, 1, 1, 1});
  m.Floats("decay", {1, 2, 1}, {std::log(0.5f), std::log(0.5f)});
  onnx::NodeProto* node = Microsoft(m, "LinearAttention", {"x", "x", "x", "past", "decay"}, {"y", "present"});
  Set(node, "q_num_heads", int64_t{1});
  Set(node, "kv_num_heads", int64_t{1});
  Set(node, "scale", 1.0f);
  Attribute(node, "update_rule", onnx::AttributeProto::STRING)->set_s("gated");
  m.Output("y");
  m.Output("present");
  // 8 / 2 + 1 * 1 = 5, times 1; 5 / 2 + 2 * 2 = 6.5, times 2.
  const auto out =
      Evaluate(m, {Data(DType::kF32, {1, 2, 1}, Numbers{1, 2}), Data(DType::kF32, {1, 1, 1, 1}, Numbers{8})});
  ExpectNear(out[0], {5, 13});
  ExpectNear(out[1], {6.5f});
}

}  // namespace
}  // namespace rondo
