// Options of operators of com.microsoft that change what they mean, against the same worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

// A FusedGemm of x and 1, and behind it the activation.
Numbers Activated(const std::string& activation, const std::vector<std::pair<const char*, float>>& options,
                  const Numbers& x) {
  ModelMaker m;
  const auto count = static_cast<int64_t>(x.size());
  m.Input("a", {count, 1});
  m.Floats("b", {1, 1}, {1});
  onnx::NodeProto* node = Microsoft(m, "FusedGemm", {"a", "b"}, {"y"});
  Set(node, "activation", activation);
  for (const auto& [name, value] : options) Set(node, name, value);
  m.Output("y");
  return Evaluate(m, {Data(DType::kF32, {count, 1}, x)})[0];
}

// Of Gemm's own alpha and the activation's, each has its own.
TEST(FusedOperators, AnActivationTakesItsOwnNumbersByName) {
  const float e = std::expm1(-1.0f);
  ExpectNear(Activated("Elu", {{"alpha", 2}, {"activation_alpha", 0.5f}}, {-0.5f, 1}), {0.5f * e, 2});
  ExpectNear(Activated("Elu", {}, {-1, 1}), {e, 1});
  ExpectNear(Activated("Selu", {{"activation_alpha", 2}, {"activation_gamma", 3}}, {-1, 1}), {6 * e, 3});
  ExpectNear(Activated("ThresholdedRelu", {{"activation_alpha", 2}}, {1.5f, 2.5f}), {0, 2.5f});
  ExpectNear(Activated("Softsign", {{"alpha", 3}}, {-1, 1}), {-0.75f, 0.75f});
}

// Softmax's own axis is 1 before opset 13; this operator's is the last.
TEST(QLinearSoftmaxTest, GoesAlongTheLastAxisInEveryOpset) {
  for (const int64_t opset : {int64_t{11}, int64_t{13}}) {
    ModelMaker m;
    m.Input("x", {1, 2, 2}, onnx::TensorProto::UINT8);
    m.Floats("one", {}, {1});
    m.Floats("part", {}, {1.0f / 256});
    Bytes(m, "zero", {}, std::string(1, '\0'));
    Set(Microsoft(m, "QLinearSoftmax", {"x", "one", "zero", "part", "zero"}, {"y"}), "opset", opset);
    Set(m.Node("Cast", {"y"}, {"wide"}), "to", int64_t{onnx::TensorProto::FLOAT});
    m.Output("wide");
    ExpectNear(Evaluate(m, {Data(DType::kU8, {1, 2, 2}, std::vector<uint8_t>{7, 7, 200, 200})})[0],
               {128, 128, 128, 128});
  }
}

// Keys that do not come from the operator's own past: nothing says where among them the queries stand.
void Cross(ModelMaker& m, int64_t queries) {
  m.Input("q", {1, queries, 1});
  m.Input("k", {1, 3, 1});
  m.Input("v", {1, 3, 1});
  onnx::NodeProto* node = Microsoft(m, "MultiHeadAttention", {"q", "k", "v"}, {"y"});
  Set(node, "num_heads", int64_t{1});
  Set(node, "unidirectional", int64_t{1});
  m.Output("y");
}

TEST(MultiHeadAttentionTest, ASingleQueryIsTheLastOfItsKeys) {
  ModelMaker m;
  Cross(m, 1);
  const Numbers same(3, 1);
  ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 1, 1}, Numbers{1}), Data(DType::kF32, {1, 3, 1}, same),
                          Data(DType::kF32, {1, 3, 1}, Numbers{1, 2, 6})})[0],
             {3});
}

TEST(MultiHeadAttentionTest, QueriesThatStandAtNoKnownKeyAreRefused) {
  ModelMaker m;
  Cross(m, 2);
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(),
                   {"MultiHeadAttention_y", "2 queries over 3 keys, 0 of them past", "attention_bias"}));
}

}  // namespace
}  // namespace rondo
