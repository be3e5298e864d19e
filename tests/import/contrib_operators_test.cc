// Operators of com.microsoft with a few steps each, with results computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

TEST(SkipGroupNormTest, NormsTheSumOfChannelsThatAreLastByGroupAndGivesTheSum) {
  ModelMaker m;
  m.Input("x", {1, 1, 2, 4});
  m.Floats("gamma", {4}, {1, 2, 1, 1});
  m.Floats("beta", {4}, {0, 0, 0, 5});
  m.Floats("skip", {1, 4}, {1, 1, 0, 0});
  m.Floats("bias", {4}, {-1, -1, 0, 0});
  onnx::NodeProto* node = Microsoft(m, "SkipGroupNorm", {"x", "gamma", "beta", "skip", "bias"}, {"y", "s"});
  Set(node, "groups", int64_t{2});
  Set(node, "epsilon", 0.0f);
  m.Output("y");
  m.Output("s");
  const Numbers x = {1, 3, 2, 2, 3, 1, 4, 4};
  const auto out = Evaluate(m, {Data(DType::kF32, {1, 1, 2, 4}, x)});
  ExpectNear(out[0], {-1, 2, -1, 4, 1, -2, 1, 6});
  ExpectNear(out[1], x);
}

TEST(BiasSoftmaxTest, ABiasIsOfTheDimsBeforeTheAxisOrOfThoseInFront) {
  const float quarter = 0.25f;
  for (const int64_t inner : {0, 1}) {
    ModelMaker m;
    m.Input("x", {2, 2, 2});
    m.Floats("bias", inner != 0 ? std::vector<int64_t>{2, 1, 2} : std::vector<int64_t>{1, 2, 2},
             {0, 0, 0, std::log(3.0f)});
    onnx::NodeProto* node = Microsoft(m, "BiasSoftmax", {"x", "bias"}, {"y"});
    Set(node, "axis", int64_t{2});
    Set(node, "is_inner_broadcast", inner);
    m.Output("y");
    const Numbers even = {0.5f, 0.5f}, odd = {quarter, 3 * quarter};
    Numbers want;
    for (const bool last : {false, inner == 0, inner != 0, true})
      want.insert(want.end(), last ? odd.begin() : even.begin(), last ? odd.end() : even.end());
    ExpectNear(Evaluate(m, {Data(DType::kF32, {2, 2, 2}, Numbers(8, 0))})[0], want);
  }
}

TEST(RelativePositionBiasTest, BucketsAreOfDistancesUpToTheKeyOrOnBothSides) {
  for (const int64_t both : {0, 1}) {
    ModelMaker m;
    m.Input("table", {4, 1});
    m.Ints("n", {4});
    onnx::NodeProto* node = Microsoft(m, "RelativePositionBias", {"table", "n", "n"}, {"y"});
    Set(node, "max_distance", int64_t{8});
    Set(node, "is_bidirectional", both);
    m.Output("y");
    const Numbers want = both != 0 ? Numbers{0, 3, 3, 3, 1, 0, 3, 3, 1, 1, 0, 3, 1, 1, 1, 0}
                                   : Numbers{0, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 2, 2, 1, 0};
    ExpectNear(Evaluate(m, {Data(DType::kF32, {4, 1}, Numbers{0, 1, 2, 3})})[0], want);
  }
}

TEST(VarlenCausalConvWithStateTest, NoTextSeesAnotherAndEachHasItsOwnPast) {
  ModelMaker m;
  m.Input("x", {5, 1});
  m.Floats("w", {1, 1, 3}, {100, 10, 1});
  m.Input("ends", {3}, onnx::TensorProto::INT32);
  m.Input("past", {2, 1, 2});
  m.Input("captured", {2}, onnx::TensorProto::INT32);
  onnx::NodeProto* node = Microsoft(m, "VarlenCausalConvWithState",
                                    {"x", "w", "ends", "", "past", "captured"}, {"y", "kept", "taken"});
  Set(node, "state_update_capacity", int64_t{2});
  for (const char* name : {"y", "kept", "taken"}) m.Output(name);
  const auto out = Evaluate(m, {Data(DType::kF32, {5, 1}, Numbers{1, 2, 3, 4, 5}),
                                Data(DType::kI32, {3}, std::vector<int32_t>{0, 1, 5}),
                                Data(DType::kF32, {2, 1, 2}, Numbers{8, 9, 6, 7}),
                                Data(DType::kI32, {2}, std::vector<int32_t>{2, 9})});
  ExpectNear(out[0], {891, 672, 723, 234, 345});
  ExpectNear(out[1], {9, 1, 4, 5});
  ExpectNear(out[2], {1, 0, 2, 3});
}

TEST(SharedBufferTest, WhatIsBehindThePastAndTheRunIsNotSeen) {
  for (const int64_t causal : {0, 1}) {
    ModelMaker m;
    for (const char* name : {"q", "k", "v"}) m.Input(name, {1, 2, 1});
    for (const char* name : {"pk", "pv"}) m.Input(name, {1, 1, 4, 1});
    m.Input("held", {1}, onnx::TensorProto::INT32);
    onnx::NodeProto* node = Microsoft(m, "MultiHeadAttention",
                                      {"q", "k", "v", "", "", "", "pk", "pv", "held"}, {"y", "nk", "nv"});
    Set(node, "num_heads", int64_t{1});
    Set(node, "unidirectional", causal);
    for (const char* name : {"y", "nk", "nv"}) m.Output(name);
    const Numbers nothing = {0, 0};
    const auto out =
        Evaluate(m, {Data(DType::kF32, {1, 2, 1}, nothing), Data(DType::kF32, {1, 2, 1}, nothing),
                     Data(DType::kF32, {1, 2, 1}, Numbers{4, 7}),
                     Data(DType::kF32, {1, 1, 4, 1}, Numbers{0, 90, 90, 90}),
                     Data(DType::kF32, {1, 1, 4, 1}, Numbers{1, 900, 900, 900}),
                     Data(DType::kI32, {1}, std::vector<int32_t>{1})});
    ExpectNear(out[0], {causal != 0 ? 2.5f : 4.0f, 4});
    ExpectNear(out[2], {1, 4, 7, 900});
  }
}

// As in ONNX Runtime, the score of a key that a query does not see is the lowest finite number, not infinity.
TEST(MultiHeadAttentionTest, ScoresOfKeysThatAreNotSeenAreTheLeastNumber) {
  ModelMaker m;
  for (const char* name : {"q", "k", "v"}) m.Input(name, {1, 2, 1});
  onnx::NodeProto* node = Microsoft(m, "MultiHeadAttention", {"q", "k", "v"}, {"y", "", "", "scores"});
  Set(node, "num_heads", int64_t{1});
  Set(node, "unidirectional", int64_t{1});
  m.Output("scores");
  const auto one = [](const Numbers& x) { return Data(DType::kF32, {1, 2, 1}, x); };
  const Numbers scores = Evaluate(m, {one({1, 2}), one({3, 4}), one({0, 0})})[0];
  EXPECT_EQ(scores, (Numbers{3, std::numeric_limits<float>::lowest(), 6, 8}));
}

TEST(ContribOperatorsTest, WhatDoesNotFitIsRefused) {
  const struct {
    const char* op;
    std::vector<std::string> inputs;
    const char* says;
  } cases[] = {
      {"GroupNorm", {"x", "three", "three"}, "in 0 groups"},
      {"BiasAdd", {"x", "three", "x"}, "does not fit"},
      {"BiasSoftmax", {"x", "three"}, "does not fit"},
      {"BiasSplitGelu", {"x", "three"}, "does not fit"},
      {"NhwcConv", {"x", "three"}, ""},
      {"ComplexMul", {"x", "x"}, "does not fit"},
      {"DecoderMaskedSelfAttention", {"flat", "three"}, "one row a text"},
      {"VarlenCausalConvWithState", {"x", "three", "three"}, "input 4 is missing"},
      {"PagedAttention", {"x"}, "export the model with GroupQueryAttention"},
      {"QOrderedMatMul", {"x"}, "export the model with QuantizeLinear"},
      {"MatMulPacked", {"x"}, "export the model with MatMulNBits"},
  };
  for (const auto& one : cases) {
    ModelMaker m;
    m.Input("x", {1, 2, 2, 4});
    m.Input("flat", {1, 2, 4});
    m.Floats("three", {3}, {1, 2, 3});
    Microsoft(m, one.op, one.inputs, {"y"});
    m.Output("y");
    EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {one.op, one.says})) << one.op;
  }
}

// The result of one expert: fc1 passes x on, and fc2 sums it.
Numbers OneExpert(const char* op, const std::string& activation, int64_t fusion, bool after) {
  constexpr int64_t kInner = 4;
  const int64_t rows = fusion < 0 ? kInner : 2 * kInner, x_size = rows;
  const bool quantised = std::string(op) == "QMoE";
  ModelMaker m;
  m.Input("x", {1, x_size});
  m.Floats("router", {1, 1}, {0});
  Numbers unit(static_cast<size_t>(rows * x_size)), sums(static_cast<size_t>(x_size * kInner));
  for (int64_t i = 0; i < rows; ++i) unit[static_cast<size_t>(i * x_size + i)] = 1;
  for (int64_t i = 0; i < kInner; ++i)
    sums[static_cast<size_t>(i * kInner + i)] = 1;  // row i selects number i
  std::vector<std::string> names = {"x", "router"};
  for (const auto& [name, numbers, n, k] :
       {std::tuple("fc1", unit, rows, x_size), std::tuple("fc2", sums, x_size, kInner)}) {
    if (quantised) {
      std::string bytes;
      for (const float x : numbers) bytes.push_back(static_cast<char>(x == 1 ? 129 : 128));
      Bytes(m, name, {1, n, k}, bytes);
      m.Floats(std::string(name) + "_scale", {1, n}, Numbers(static_cast<size_t>(n), 1));
      names.insert(names.end(), {name, std::string(name) + "_scale", ""});
    } else {
      m.Floats(name, {1, n, k}, numbers);
      names.insert(names.end(), {name, ""});
    }
  }
  onnx::NodeProto* node = Microsoft(m, op, names, {"y"});
  Set(node, "activation_type", activation);
  if (quantised) Set(node, "expert_weight_bits", int64_t{8});
  if (fusion >= 0) Set(node, "swiglu_fusion", fusion);
  if (after) Set(node, "swiglu_limit_after_activation", int64_t{1});
  if (activation == "swiglu") Set(node, "swiglu_limit", 1.5f);
  m.Output("y");
  Numbers x = {-2, -1, 1.25f, 3, -0.5f, 1, 2, -3};
  x.resize(static_cast<size_t>(x_size));
  Numbers y = Evaluate(m, {Data(DType::kF32, {1, x_size}, x)})[0];
  y.resize(kInner);
  return y;
}

TEST(MixtureOfExpertsTest, ActivationsAreWhatTheirNamesMean) {
  ExpectNear(OneExpert("MoE", "relu2", -1, false), {0, 0, 1.5625f, 9});
  const auto gelu = [](float x) {
    return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  };
  const Numbers geglu = {gelu(-2) * -1, gelu(1.25f) * 3, gelu(-0.5f) * 1, gelu(2) * -3};
  ExpectNear(OneExpert("QMoE", "geglu", 1, false), geglu);
  ExpectNear(OneExpert("QMoE", "geglu", 2, false),
             {gelu(-2) * -0.5f, gelu(-1) * 1, gelu(1.25f) * 2, gelu(3) * -3});
  const auto silu = [](float x) { return x / (1 + std::exp(-x)); };
  const Numbers before = {silu(-2) * -1, silu(1.25f) * 1.5f, silu(-0.5f) * 1, silu(1.5f) * -1.5f};
  ExpectNear(OneExpert("QMoE", "swiglu", 1, false), before);
  ExpectNear(OneExpert("QMoE", "swiglu", 0, false), before);  // the same as with fusion 1
  Numbers after = before;
  after[3] = 1.5f * -1.5f;  // silu(2) exceeds the limit
  ExpectNear(OneExpert("QMoE", "swiglu", 1, true), after);
}

}  // namespace
}  // namespace rondo
