// Operators of com.microsoft that combine several matmuls of one input or choose experts, and quantised
// embeddings. They are compared with the operators that they consist of, or with results computed by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

constexpr int64_t kRows = 2, kIn = 32, kBlock = 16;

// Adds 4-bit weights for `n` outputs, scales and a bias: "NAME_B", "NAME_s", "NAME_b".
std::vector<std::string> AddWeights(ModelMaker& m, const std::string& name, int64_t n, uint32_t seed) {
  std::string codes;
  for (int64_t i = 0; i < n * kIn / 2; ++i) codes += static_cast<char>(i * 37 + seed * 11);
  Bytes(m, name + "_B", {n, kIn / kBlock, kBlock / 2}, codes);
  Numbers scales = Random(static_cast<size_t>(n * kIn / kBlock), seed);
  for (float& scale : scales) scale *= 0.1f;
  m.Floats(name + "_s", {n, kIn / kBlock}, scales);
  m.Floats(name + "_b", {n}, Random(static_cast<size_t>(n), seed + 1));
  return {name + "_B", name + "_s", name + "_b"};
}

void SetBlocks(onnx::NodeProto* node) {
  Set(node, "K", kIn);
  Set(node, "block_size", kBlock);
}

// y = x @ weights + bias, by MatMulNBits.
void AddMatMul(ModelMaker& m, const std::string& x, const std::vector<std::string>& w, int64_t n,
               const std::string& y) {
  onnx::NodeProto* node = Microsoft(m, "MatMulNBits", {x, w[0], w[1], "", "", w[2]}, {y});
  SetBlocks(node);
  Set(node, "N", n);
}

void AddInputs(ModelMaker& m) {
  m.Input("a", {kRows, kIn});
  m.Input("skip", {kRows, kIn});
  m.Floats("norm", {kIn}, Random(kIn, 9));
}

ir::Values Given() {
  const size_t count = kRows * kIn;
  return {Data(DType::kF32, {kRows, kIn}, Random(count, 1)),
          Data(DType::kF32, {kRows, kIn}, Random(count, 2))};
}

void AddNorm(ModelMaker& m, float epsilon) {
  Set(Microsoft(m, "SkipSimplifiedLayerNormalization", {"a", "skip", "norm"}, {"x", "", "", "sum"}),
      "epsilon", epsilon);
}

void ExpectAlike(ModelMaker& fused, ModelMaker& pieces) {
  const std::vector<Numbers> got = Evaluate(fused, Given()), expected = Evaluate(pieces, Given());
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ExpectNear(got[i], expected[i]);
}

// Parts of the adapter that have no weights add nothing.
TEST(ProjectionsTest, AQuantisedAdapterIsTwoMatMulsBesideTheOne) {
  constexpr int64_t kOut = 5, kRank = 3;
  for (const std::string empty : {"", "down", "up"}) {
    ModelMaker fused, pieces;
    std::vector<std::string> base, down;
    for (ModelMaker* m : {&fused, &pieces}) {
      AddInputs(*m);
      base = AddWeights(*m, "base", kOut, 3), down = AddWeights(*m, "down", kRank, 5);
      std::string codes;  // one block of 16 codes, of which 3 are used
      for (int64_t i = 0; i < kOut * kBlock / 2; ++i) codes += static_cast<char>(i * 29);
      Bytes(*m, "up_B", {kOut, 1, kBlock / 2}, codes);
      m->Floats("up_s", {kOut, 1}, Random(kOut, 8));
      Bytes(*m, "none", {0, kIn / kBlock, kBlock / 2}, "");
    }
    onnx::NodeProto* node = Microsoft(fused, "MatMulNBitsQLoRA",
                                      {"a", base[0], base[1], empty == "down" ? "none" : down[0], down[1],
                                       empty == "up" ? "none" : "up_B", "up_s"},
                                      {"y"});
    SetBlocks(node);
    Set(node, "N", kOut);
    Set(node, "lora_block_size", kBlock);
    const auto matmul = [&](const std::string& x, const std::vector<std::string>& w, int64_t k, int64_t n,
                            const std::string& y) {
      onnx::NodeProto* of = Microsoft(pieces, "MatMulNBits", {x, w[0], w[1]}, {y});
      Set(of, "K", k);
      Set(of, "N", n);
      Set(of, "block_size", kBlock);
    };
    matmul("a", base, kIn, kOut, empty.empty() ? "first" : "y");
    if (empty.empty()) {
      matmul("a", down, kIn, kRank, "low");
      matmul("low", {"up_B", "up_s"}, kRank, kOut, "more");
      pieces.Node("Add", {"first", "more"}, {"y"});
    }
    for (ModelMaker* m : {&fused, &pieces}) m->Output("y");
    ExpectAlike(fused, pieces);
  }
}

TEST(ProjectionsTest, AnMlpIsItsTwoMatMuls) {
  ModelMaker fused, pieces;
  std::vector<std::string> gate, up;
  for (ModelMaker* m : {&fused, &pieces}) {
    AddInputs(*m);
    gate = AddWeights(*m, "gate", 5, 3), up = AddWeights(*m, "up", 5, 5);
  }
  onnx::NodeProto* node =
      Microsoft(fused, "MatMulNBitsMlp",
                {"a", "skip", "norm", gate[0], gate[1], gate[2], up[0], up[1], up[2]}, {"y", "sum"});
  SetBlocks(node);
  Set(node, "N", int64_t{5});
  Set(node, "activation", std::string("silu"));
  AddNorm(pieces, 1e-5f);
  AddMatMul(pieces, "x", gate, 5, "gated");
  AddMatMul(pieces, "x", up, 5, "upper");
  pieces.Node("Sigmoid", {"gated"}, {"opened"});
  pieces.Node("Mul", {"gated", "opened"}, {"silu"});
  pieces.Node("Mul", {"silu", "upper"}, {"y"});
  for (ModelMaker* m : {&fused, &pieces}) m->Output("y"), m->Output("sum");
  ExpectAlike(fused, pieces);
}

TEST(ProjectionsTest, QueriesKeysAndValuesAreTheirMatMuls) {
  ModelMaker fused, pieces;
  const std::vector<std::string> names = {"q", "k", "v"};
  std::vector<std::string> inputs = {"a", "skip", "norm"};
  for (ModelMaker* m : {&fused, &pieces}) {
    AddInputs(*m);
    if (m == &pieces) AddNorm(pieces, 1e-2f);
    for (size_t i = 0; i < 3; ++i) {
      const int64_t n = i == 0 ? 6 : 3;
      const std::vector<std::string> w = AddWeights(*m, names[i], n, 3 + static_cast<uint32_t>(i));
      if (m == &pieces) AddMatMul(pieces, "x", w, n, names[i]);
      if (m == &fused) inputs.insert(inputs.end(), w.begin(), w.end());
    }
  }
  onnx::NodeProto* node = Microsoft(fused, "MatMulNBitsQkv", inputs, {"q", "k", "v", "sum"});
  SetBlocks(node);
  Set(node, "Nq", int64_t{6});
  Set(node, "Nkv", int64_t{3});
  Set(node, "epsilon", 1e-2f);
  for (const char* name : {"q", "k", "v", "sum"}) fused.Output(name), pieces.Output(name);
  ExpectAlike(fused, pieces);
}

TEST(ProjectionsTest, TheRoutersColumnsComeFirst) {
  ModelMaker m;
  m.Input("x", {1, 2});
  m.Floats("w", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  onnx::NodeProto* node = Microsoft(m, "RouterGateUpProj", {"x", "w"}, {"router", "activated"});
  Set(node, "router_size", int64_t{2});
  Set(node, "limit", 3.0f);
  Set(node, "activation_alpha", 0.5f);
  Set(node, "activation_beta", 1.0f);
  m.Output("router"), m.Output("activated");
  const auto got = Evaluate(m, {Data(DType::kF32, {1, 2}, Numbers{1, -1})});
  ExpectNear(got[0], {-4, -4});
  ExpectNear(got[1], {-4 / (1 + std::exp(2.0f)) * (-3 + 1)});  // the gate has no lower limit
}

// Six experts in three groups. A group's score is the sum of its best two experts, and the best two groups
// are open.
TEST(ProjectionsTest, GroupsOfExpertsAreChosenFirst) {
  const Numbers logits = {5, -9, 1, 2, 0.5f, 4};
  const auto open = [](float x) { return 1 / (1 + std::exp(-x)); };
  for (const bool all : {false, true}) {
    ModelMaker m;
    m.Input("logits", {1, 1, 6});
    m.Floats("bias", {6}, {0, 0, 0, 0, 0, -0.5f});
    onnx::NodeProto* node =
        Microsoft(m, "MoEGroupRouter", {"logits", "bias"},
                  all ? std::vector<std::string>{"", "scores", "weights"} : std::vector<std::string>{"y"});
    Set(node, "top_k", int64_t{3});
    if (!all) Set(node, "n_group", int64_t{3}), Set(node, "topk_group", int64_t{2});
    if (!all) Set(node, "router_sentinel", -7.0f);
    for (const char* name : {"scores", "weights"}) {
      if (all) m.Output(name);
    }
    if (!all) m.Output("y");
    const auto got = Evaluate(m, {Data(DType::kF32, {1, 1, 6}, logits)});
    if (all) {
      Numbers weights;
      for (float x : logits) weights.push_back(open(x));
      ExpectNear(got[1], weights);
      weights[5] -= 0.5f;
      ExpectNear(got[0], weights);
    } else {
      // The groups score 0.993, 1.612 and 1.104, so the first is closed.
      ExpectNear(got[0], {-7, -7, std::log(open(1)), std::log(open(2)), std::log(open(0.5f)), -7});
    }
  }
}

TEST(ProjectionsTest, QuantisedEmbeddingsAreTheirNumbers) {
  ModelMaker quantised, plain;
  for (ModelMaker* m : {&quantised, &plain}) {
    m->Input("ids", {1, 2}, onnx::TensorProto::INT32);
    m->Input("mask", {1, 2}, onnx::TensorProto::INT32);
  }
  Bytes(quantised, "words", {2, 2}, std::string("\x01\x02\x03\x07", 4));
  Bytes(quantised, "places", {2, 2}, std::string("\x05\x04\x01\x09", 4));
  Bytes(quantised, "gamma", {2}, std::string("\x04\x08", 2));
  Bytes(quantised, "beta", {2}, std::string("\x01\x00", 2));
  Bytes(quantised, "three", {}, std::string("\x03", 1));
  quantised.Floats("half", {}, {0.5f});
  quantised.Floats("two", {}, {2});
  Set(Microsoft(quantised, "QEmbedLayerNormalization",
                {"ids", "", "words", "places", "", "gamma", "beta", "mask", "half", "two", "", "half", "two",
                 "three", "three", "", "three", "three"},
                {"y", "count"}),
      "epsilon", 1e-3f);
  plain.Floats("words", {2, 2}, {-1, -0.5f, 0, 2});
  plain.Floats("places", {2, 2}, {4, 2, -4, 12});
  plain.Floats("gamma", {2}, {0.5f, 2.5f});
  plain.Floats("beta", {2}, {-4, -6});
  Set(Microsoft(plain, "EmbedLayerNormalization", {"ids", "", "words", "places", "", "gamma", "beta", "mask"},
                {"y", "count"}),
      "epsilon", 1e-3f);
  for (ModelMaker* m : {&quantised, &plain}) m->Output("y"), m->Output("count");
  const ir::Values inputs = {Data(DType::kI32, {1, 2}, std::vector<int32_t>{1, 0}),
                             Data(DType::kI32, {1, 2}, std::vector<int32_t>{1, 0})};
  const std::vector<Numbers> got = Evaluate(quantised, inputs), expected = Evaluate(plain, inputs);
  ExpectNear(got[0], expected[0]);
  EXPECT_EQ(got[1], expected[1]);  // the bits of an i32
}

TEST(ProjectionsTest, WhatDoesNotFitIsRefused) {
  const auto mlp = [](const std::string& activation, const std::string& skip, const std::string& norm,
                      int64_t k) {
    ModelMaker m;
    AddInputs(m);
    const auto gate = AddWeights(m, "gate", 5, 3);
    onnx::NodeProto* node = Microsoft(
        m, "MatMulNBitsMlp", {"a", skip, norm, gate[0], gate[1], gate[2], gate[0], gate[1], gate[2]}, {"y"});
    Set(node, "K", k);
    Set(node, "N", int64_t{5});
    Set(node, "block_size", kBlock);
    Set(node, "activation", activation);
    m.Output("y");
    return ImportModel(m.Make(), {}, nullptr).status();
  };
  EXPECT_TRUE(Says(mlp("gelu", "", "", kIn), {"the activation \"gelu\"", "export the gate"}));
  EXPECT_TRUE(Says(mlp("silu", "skip", "", kIn), {"need skip and norm_scale"}));
  EXPECT_TRUE(Says(mlp("silu", "skip", "gate_b", kIn), {"norm_scale of shape [5] for [2, 32]"}));
  EXPECT_TRUE(Says(mlp("silu", "", "", 48), {"last dimension must be K, 48"}));
  const auto router = [](int64_t groups, int64_t used, int64_t k, const std::vector<std::string>& outputs) {
    ModelMaker m;
    m.Input("logits", {1, 6});
    m.Floats("bias", {6}, Random(6, 1));
    onnx::NodeProto* node = Microsoft(m, "MoEGroupRouter", {"logits", "bias"}, outputs);
    Set(node, "n_group", groups), Set(node, "topk_group", used), Set(node, "top_k", k);
    m.Output(outputs.back());
    return ImportModel(m.Make(), {}, nullptr).status();
  };
  EXPECT_TRUE(Says(router(3, 1, 3, {"y"}), {"3 of 6 experts, out of 1 of 3 groups"}));
  EXPECT_TRUE(Says(router(3, 1, 0, {"y"}), {"0 of 6 experts"}));
  EXPECT_TRUE(Says(router(4, 1, 1, {"y"}), {"out of 1 of 4 groups"}));
  EXPECT_TRUE(Says(router(3, 1, 1, {"", "scores", "weights"}), {"scores of 3 groups"}));
  EXPECT_TRUE(router(3, 2, 4, {"y"}).ok());
}

// A model with its decoder inside is refused with the remedy, not with the name of a missing library.
TEST(ProjectionsTest, SearchesNameWhatToExport) {
  for (const char* op : {"BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"}) {
    ModelMaker m;
    m.Input("ids", {1, 4}, onnx::TensorProto::INT32);
    Microsoft(m, op, {"ids"}, {"y"});
    m.Output("y");
    const Status status = ImportModel(m.Make(), {}, nullptr).status();
    EXPECT_TRUE(Says(status, {op, "export the decoder itself", "rondo generate"}));
    EXPECT_EQ(std::strstr(status.message(), "--ops"), nullptr);
  }
}

}  // namespace
}  // namespace rondo
