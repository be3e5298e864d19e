// Options that change the meaning of com.microsoft's operators, with results computed by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

// A FusedGemm of x and 1, followed by the activation.
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

// Gemm and the activation each have their own alpha.
TEST(FusedOperators, AnActivationTakesItsOwnNumbersByName) {
  const float e = std::expm1(-1.0f);
  ExpectNear(Activated("Elu", {{"alpha", 2}, {"activation_alpha", 0.5f}}, {-0.5f, 1}), {0.5f * e, 2});
  ExpectNear(Activated("Elu", {}, {-1, 1}), {e, 1});
  ExpectNear(Activated("Selu", {{"activation_alpha", 2}, {"activation_gamma", 3}}, {-1, 1}), {6 * e, 3});
  ExpectNear(Activated("ThresholdedRelu", {{"activation_alpha", 2}}, {1.5f, 2.5f}), {0, 2.5f});
  ExpectNear(Activated("Softsign", {{"alpha", 3}}, {-1, 1}), {-0.75f, 0.75f});
  ExpectNear(Activated("HardSwish", {}, {-1, 2, 4}), {-1.0f / 3, 2 * (2.0f / 6 + 0.5f), 4});
  ExpectNear(Activated("ScaledTanh", {{"activation_alpha", 2}, {"activation_beta", 0.5f}}, {1}),
             {2 * std::tanh(0.5f)});
  ExpectNear(Activated("ParametricSoftplus", {{"activation_alpha", 2}, {"activation_beta", 0.5f}}, {1}),
             {2 * std::log1p(std::exp(0.5f))});
}

// ONNX's Softmax has axis 1 by default before opset 13; this operator always uses the last axis.
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

// The range of values that cannot be negative begins at 0, so no kernel computes the minimum, and the zero
// point is known. For other values each run computes both.
TEST(DynamicQuantizeLinearTest, WhatIsNotNegativeHasAKnownZeroPoint) {
  for (const bool relu : {true, false}) {
    ModelMaker m;
    m.Input("x", {1, 1, 2, 2});
    m.Node(relu ? "Relu" : "Identity", {"x"}, {"a"});
    onnx::NodeProto* pool = m.Node("MaxPool", {"a"}, {"b"});
    onnx::AttributeProto* kernel = Attribute(pool, "kernel_shape", onnx::AttributeProto::INTS);
    for (int axis = 0; axis < 2; ++axis) kernel->add_ints(1);
    m.Node("Add", {"b", "b"}, {"c"});
    m.Node("DynamicQuantizeLinear", {"c"}, {"bytes", "scale", "zero"});
    Set(m.Node("Cast", {"bytes"}, {"numbers"}), "to", int64_t{onnx::TensorProto::FLOAT});
    Set(m.Node("Cast", {"zero"}, {"from"}), "to", int64_t{onnx::TensorProto::FLOAT});
    for (const char* output : {"numbers", "scale", "from"}) m.Output(output);
    const std::vector<Numbers> y = Evaluate(m, {Data(DType::kF32, {1, 1, 2, 2}, Numbers{-1, 0, 1, 4})});
    ExpectNear(y[0], relu ? Numbers{0, 0, 64, 255} : Numbers{0, 51, 102, 255});
    ExpectNear(y[1], {relu ? 8 / 255.0f : 10 / 255.0f});
    ExpectNear(y[2], {relu ? 0.0f : 51.0f});
    auto graph = ImportModel(m.Make(), {}, nullptr);
    ASSERT_TRUE(graph.ok());
    int least = 0;
    for (ir::NodeId id = 0; id < graph->size(); ++id) {
      const ir::Node& node = graph->node(id);
      least +=
          !node.dead && node.op == ir::Op::kReduce && node.As<ir::ReduceAttrs>().kind == ir::ReduceKind::kMin;
    }
    EXPECT_EQ(least > 0, !relu);
  }
}

// Keys that do not come from the operator's own past: the queries' positions among them are unknown.
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

// [3b + 2]: the lengths, then the begin of each text's queries and keys.
TEST(MultiHeadAttentionTest, LengthsComeWithWhereTextsBeginAsWell) {
  ModelMaker m;
  m.Input("x", {2, 3, 1});
  m.Input("lengths", {8}, onnx::TensorProto::INT32);
  m.Floats("zero", {2, 3, 1}, Numbers(6, 0));
  onnx::NodeProto* node = Microsoft(m, "MultiHeadAttention", {"zero", "zero", "x", "", "lengths"}, {"y"});
  Set(node, "num_heads", int64_t{1});
  m.Output("y");
  const std::vector<int32_t> lengths = {2, 1, 0, 2, 3, 0, 2, 3};
  ExpectNear(Evaluate(m, {Data(DType::kF32, {2, 3, 1}, Numbers{1, 5, 90, 7, 80, 90}),
                          Data(DType::kI32, {8}, lengths)})[0],
             {3, 3, 3, 7, 7, 7});
}

// A block that is longer than its axis is the whole axis.
TEST(Blocks, MayBeLongerThanTheirAxis) {
  for (const int64_t block : {int64_t{3}, int64_t{1} << 62, INT64_MAX}) {
    ModelMaker m(21);
    m.Input("x", {2, 3});
    m.Input("scale", {2, 1});
    Set(m.Node("QuantizeLinear", {"x", "scale"}, {"q"}), "block_size", block);
    Set(m.Node("DequantizeLinear", {"q", "scale"}, {"y"}), "block_size", block);
    Bytes(m, "w", {16, 32}, std::string(256, '\x2f'), onnx::TensorProto::INT4);
    m.Floats("each", {16, 1}, Numbers(16, 2));
    Set(m.Node("DequantizeLinear", {"w", "each"}, {"wide"}), "block_size", block < 32 ? 32 : block);
    m.Output("y");
    m.Output("wide");
    Numbers expected;
    for (int i = 0; i < 256; ++i) expected.insert(expected.end(), {-2, 4});
    const auto got = Evaluate(
        m, {Data(DType::kF32, {2, 3}, Numbers{1, 2, 3, 4, 5, 6}), Data(DType::kF32, {2, 1}, Numbers{1, 3})});
    ExpectNear(got[0], {1, 2, 3, 3, 6, 6});
    ExpectNear(got[1], expected);
  }
}

TEST(GatherBlockQuantizedTest, ABlockMayBeLongerThanItsAxis) {
  ModelMaker m;
  m.Input("ids", {1}, onnx::TensorProto::INT64);
  m.Floats("scales", {2, 1}, {1, 0.5f});
  Bytes(m, "table", {2, 8}, std::string(16, '\x8a'));
  onnx::NodeProto* node = Microsoft(m, "GatherBlockQuantized", {"table", "ids", "scales"}, {"y"});
  Set(node, "block_size", int64_t{1} << 62);
  m.Output("y");
  Numbers expected;
  for (int i = 0; i < 8; ++i) expected.insert(expected.end(), {1, 0});
  ExpectNear(Evaluate(m, {Data(DType::kI64, {1}, std::vector<int64_t>{1})})[0], expected);
}

// There are more rows than positions in the table, and the scale is already in the table.
TEST(RotaryEmbeddingTest, PackedBatchesAreTurnedLikeOthers) {
  ModelMaker m;
  m.Input("x", {1, 3, 2});
  m.Input("positions", {1, 3}, onnx::TensorProto::INT64);
  m.Floats("cosines", {2, 1}, {1, 0});
  m.Floats("sines", {2, 1}, {0, 1});
  onnx::NodeProto* node = Microsoft(m, "RotaryEmbedding", {"x", "positions", "cosines", "sines"}, {"y"});
  Set(node, "is_packed_batching", int64_t{1});
  Set(node, "scale", 2.0f);
  m.Output("y");
  ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 3, 2}, Numbers{1, 2, 3, 4, 5, 6}),
                          Data(DType::kI64, {1, 3}, std::vector<int64_t>{0, 1, 0})})[0],
             {1, 2, -4, 3, 5, 6});
}

// Angles by three positions (time 1, row 2, column 3) from a table that holds 10 * position.
TEST(RotaryEmbeddingTest, AnglesAreOfThreePositionsBySectionsOrByTurns) {
  const auto turned = [](const std::vector<int64_t>& sections, int64_t layout) {
    ModelMaker m;
    m.Input("x", {1, 1, 1, 8});
    m.Input("positions", {3, 1, 1}, onnx::TensorProto::INT64);
    Numbers table;
    for (int i = 0; i < 16; ++i) table.push_back(static_cast<float>(10 * (i / 4)));
    m.Floats("cosines", {4, 4}, table);
    m.Floats("sines", {4, 4}, Numbers(16, 0));
    onnx::NodeProto* node = Microsoft(m, "MRotaryEmbedding", {"x", "positions", "cosines", "sines"}, {"y"});
    onnx::AttributeProto* attribute = Attribute(node, "mrope_section", onnx::AttributeProto::INTS);
    for (int64_t section : sections) attribute->add_ints(section);
    Set(node, "mrope_layout", layout);
    m.Output("y");
    return m;
  };
  const auto given = [](ModelMaker m) {
    return Evaluate(m, {Data(DType::kF32, {1, 1, 1, 8}, Numbers(8, 1)),
                        Data(DType::kI64, {3, 1, 1}, std::vector<int64_t>{1, 2, 3})})[0];
  };
  ExpectNear(given(turned({2, 1, 1}, 0)), {10, 10, 20, 30, 10, 10, 20, 30});
  ExpectNear(given(turned({2, 1, 1}, 1)), {10, 20, 30, 10, 10, 20, 30, 10});
  ExpectNear(given(turned({3, 1, 0}, 1)), {10, 20, 10, 10, 10, 20, 10, 10});
  EXPECT_TRUE(Says(ImportModel(turned({1, 1, 1}, 0).Make(), {}, nullptr).status(),
                   {"MRotaryEmbedding_y", "mrope_section", "4 in all"}));
}

TEST(RotaryEmbeddingTest, TablesWithoutAnglesAreRefused) {
  for (const char* domain : {"", "com.microsoft"}) {
    ModelMaker m(23);
    m.Input("x", {1, 1, 2, 4});
    m.Input("positions", {1, 2}, onnx::TensorProto::INT64);
    m.Input("cosines", {0, 2});
    m.Floats("sines", {2, 2}, Numbers(4, 1));
    const bool own = *domain == '\0';
    m.Node("RotaryEmbedding",
           own ? std::vector<std::string>{"x", "cosines", "sines", "positions"}
               : std::vector<std::string>{"x", "positions", "cosines", "sines"},
           {"y"})
        ->set_domain(domain);
    m.Output("y");
    EXPECT_TRUE(
        Says(ImportModel(m.Make(), {}, nullptr).status(),
             {"RotaryEmbedding \"RotaryEmbedding_y\"", own ? "input 1" : "input 2", "[0, 2]", "no angles"}));
  }
}

// Attention of opset 25 over zero keys: each query gets the mean of the values that it sees.
struct Window {
  int64_t queries = 4, keys = 6, past = 0;
  int64_t left = -1, right = -1, causal = 0;
  int64_t real = 0;  // number of keys that are not padding; 0: not given
  int mask = 0;      // the type, of onnx::TensorProto, of a mask that drops key 2; 0: no mask
};

Numbers Means(const Window& w) {
  ModelMaker m(25);
  const int64_t all = w.past + w.keys;
  m.Input("q", {1, 1, w.queries, 1});
  m.Floats("k", {1, 1, w.keys, 1}, Numbers(static_cast<size_t>(w.keys)));
  Numbers values(static_cast<size_t>(all)), kept(values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  m.Floats("past_k", {1, 1, w.past, 1}, Numbers(static_cast<size_t>(w.past)));
  m.Floats("past_v", {1, 1, w.past, 1}, Numbers(values.begin(), values.begin() + w.past));
  m.Floats("v", {1, 1, w.keys, 1}, Numbers(values.begin() + w.past, values.end()));
  m.Ints("real", {w.real});
  if (w.mask == onnx::TensorProto::FLOAT) {
    kept[2] = -INFINITY;
    m.Floats("mask", {1, all}, kept);
  } else if (w.mask != 0) {
    std::string bytes(values.size(), '\1');
    bytes[2] = '\0';
    Bytes(m, "mask", {1, all}, bytes, w.mask);
  }
  std::vector<std::string> inputs = {"q", "k", "v", w.mask == 0 ? "" : "mask"};
  if (w.past > 0) inputs.insert(inputs.end(), {"past_k", "past_v"});
  if (w.real > 0) inputs.insert(inputs.end(), {"", "", "real"});
  onnx::NodeProto* node = m.Node("Attention", inputs, {"y"});
  Set(node, "left_window_size", w.left);
  Set(node, "right_window_size", w.right);
  Set(node, "is_causal", w.causal);
  m.Output("y");
  const Numbers q(static_cast<size_t>(w.queries), 1);
  return Evaluate(m, {Data(DType::kF32, {1, 1, w.queries, 1}, q)})[0];
}

TEST(AttentionTest, AWindowBoundsWhatAQuerySeesOnEitherSide) {
  ExpectNear(Means({}), {2.5f, 2.5f, 2.5f, 2.5f});
  ExpectNear(Means({.left = 2, .right = 1}), {0.5f, 1, 1.5f, 2.5f});
  ExpectNear(Means({.left = 0}), {2.5f, 3, 3.5f, 4});
  ExpectNear(Means({.right = 0}), {0, 0.5f, 1, 1.5f});
  ExpectNear(Means({.left = INT64_MAX, .right = INT64_MAX}), {2.5f, 2.5f, 2.5f, 2.5f});
  ExpectNear(Means({.left = 1, .right = 3, .causal = 1}), {0, 0.5f, 1.5f, 2.5f});
  // Queries may come after the last key.
  ExpectNear(Means({.queries = 5, .keys = 2, .left = 3}), {0.5f, 0.5f, 0.5f, 0.5f, 1});
}

TEST(AttentionTest, AWindowIsCountedFromWhereTheQueryStands) {
  ExpectNear(Means({.queries = 2, .keys = 2, .past = 3, .left = 1, .causal = 1}), {2.5f, 3.5f});
  ExpectNear(Means({.queries = 2, .keys = 6, .left = 1, .right = 1, .real = 5}), {3, 3.5f});
}

TEST(AttentionTest, AWindowAndAMaskBothHold) {
  ExpectNear(Means({.left = 1, .right = 0, .mask = onnx::TensorProto::BOOL}), {0, 0.5f, 1, 3});
  ExpectNear(Means({.left = 1, .right = 0, .mask = onnx::TensorProto::FLOAT}), {0, 0.5f, 1, 3});
}

// Opset 25 has types of 2 bits.
TEST(NarrowWeights, OfTwoBitsComeFourInAByte) {
  constexpr int kUint2 = 25, kInt2 = 26;
  ModelMaker m(25);
  Bytes(m, "w", {5}, std::string("\xe4\x02", 2), kInt2);
  Bytes(m, "u", {5}, std::string("\xe4\x02", 2), kUint2);
  m.Floats("scale", {}, {2});
  m.Node("DequantizeLinear", {"w", "scale"}, {"y"});
  m.Node("DequantizeLinear", {"u", "scale"}, {"z"});
  m.Output("y");
  m.Output("z");
  const auto got = Evaluate(m, {});
  ExpectNear(got[0], {0, 2, -4, -2, -4});
  ExpectNear(got[1], {0, 2, 4, 6, 4});
}

// As in EfficientNet's last pooling, whose window has as many rows as there are channels.
TEST(PoolingTest, AWindowLongerThanAllThereIsIsOneRoundedUp) {
  for (const bool up : {true, false}) {
    ModelMaker m;
    m.Input("x", {1, 1, 3});
    onnx::NodeProto* pool = m.Node("AveragePool", {"x"}, {"y"});
    Attribute(pool, "kernel_shape", onnx::AttributeProto::INTS)->add_ints(8);
    Attribute(pool, "strides", onnx::AttributeProto::INTS)->add_ints(8);
    Set(pool, "ceil_mode", int64_t{up});
    Set(pool, "count_include_pad", int64_t{1});
    m.Output("y");
    if (up) {
      ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 1, 3}, Numbers{1, 2, 6})})[0], {3});
    } else {
      EXPECT_TRUE(
          Says(ImportModel(m.Make(), {}, nullptr).status(), {"AveragePool", "a window of 8 on axis 2"}));
    }
  }
}

// Kernels widen what they read: no copy of the input in f32 is made, and sums are f32 nevertheless.
TEST(PoolingTest, AnAverageOf16BitFloatsReadsThem) {
  for (const int64_t whole : {0, 1}) {
    ModelMaker m;
    m.Input("x", {1, 1, 4});
    Set(m.Node("Cast", {"x"}, {"half"}), "to", int64_t{onnx::TensorProto::FLOAT16});
    onnx::NodeProto* pool = m.Node("AveragePool", {"half"}, {"pooled"});
    Attribute(pool, "kernel_shape", onnx::AttributeProto::INTS)->add_ints(3);
    Set(pool, "count_include_pad", whole);
    Set(m.Node("Cast", {"pooled"}, {"y"}), "to", int64_t{onnx::TensorProto::FLOAT});
    m.Output("y");
    ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 1, 4}, Numbers{60000, 60000, 60000, 59904})})[0],
               {60000, 59968});
    const Result<ir::Graph> graph = ImportModel(m.Make(), {}, nullptr);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    for (ir::NodeId id = 0; id < graph->size(); ++id) {
      const ir::Node& node = graph->node(id);
      if (node.dead || node.op != ir::Op::kPool) continue;
      EXPECT_EQ(node.dtype, DType::kF32);
      EXPECT_EQ(graph->node(node.inputs[0]).dtype, DType::kF16);
    }
  }
}

// With auto_pad set, pads are ignored, as in ONNX Runtime.
TEST(PoolingTest, PadsAreReadWhereAutoPadLeavesThemOpen) {
  for (const auto& [auto_pad, expected] :
       std::initializer_list<std::pair<const char*, Numbers>>{{"VALID", {2, 4}},
                                                              {"SAME_UPPER", {2, 4, 5}},
                                                              {"SAME_LOWER", {1, 2, 4}},
                                                              {"NOTSET", {1, 2, 4, 5}}}) {
    ModelMaker m;
    m.Input("x", {1, 1, 3});
    onnx::NodeProto* pool = m.Node("AveragePool", {"x"}, {"y"});
    Attribute(pool, "kernel_shape", onnx::AttributeProto::INTS)->add_ints(2);
    onnx::AttributeProto* pads = Attribute(pool, "pads", onnx::AttributeProto::INTS);
    pads->add_ints(1), pads->add_ints(1);
    Set(pool, "auto_pad", std::string(auto_pad));
    m.Output("y");
    ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 1, 3}, Numbers{1, 3, 5})})[0], expected);
  }
}

TEST(PoolingTest, WhatWasPooledGoesBackToItsPlaces) {
  const auto unpooled = [](int64_t pad, ModelMaker& m) {
    m.Input("x", {1, 1, 2});
    m.Input("places", {1, 1, 2}, onnx::TensorProto::INT64);
    onnx::NodeProto* node = m.Node("MaxUnpool", {"x", "places"}, {"y"});
    for (const auto& [name, values] : std::initializer_list<std::pair<const char*, std::vector<int64_t>>>{
             {"kernel_shape", {2}}, {"strides", {2}}, {"pads", {pad, pad}}}) {
      onnx::AttributeProto* attribute = Attribute(node, name, onnx::AttributeProto::INTS);
      for (int64_t value : values) attribute->add_ints(value);
    }
    m.Output("y");
  };
  ModelMaker whole, nothing;
  unpooled(0, whole), unpooled(2, nothing);
  ExpectNear(Evaluate(whole, {Data(DType::kF32, {1, 1, 2}, Numbers{5, 7}),
                              Data(DType::kI64, {1, 1, 2}, std::vector<int64_t>{1, 2})})[0],
             {0, 5, 7, 0});
  EXPECT_TRUE(
      Says(ImportModel(nothing.Make(), {}, nullptr).status(), {"MaxUnpool", "a result of shape [1, 1, 0]"}));
}

// Samples up to one element outside the image take its edge; beyond that they are 0.
TEST(RoiAlignTest, SamplesFarOutsideAreZero) {
  ModelMaker m(16);
  m.Input("x", {1, 1, 2, 2});
  m.Floats("regions", {2, 4}, {1, 0, 2, 1, 2, 0, 3, 1});  // the bins' centres are (1.5, 0.5) and (2.5, 0.5)
  m.Ints("batch", {0, 0});
  onnx::NodeProto* node = m.Node("RoiAlign", {"x", "regions", "batch"}, {"y"});
  Set(node, "sampling_ratio", int64_t{1});
  Set(node, "coordinate_transformation_mode", std::string("output_half_pixel"));
  m.Output("y");
  ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 1, 2, 2}, Numbers{1, 2, 3, 4})})[0], {3, 0});
}

// Without a sampling ratio, models of many boxes have a way for runs whose boxes all have few samples.
TEST(RoiAlignTest, ManyBoxesGiveWhatFewAtATimeGive) {
  constexpr int64_t kChannels = 24, kRows = 64, kColumns = 72, kBoxes = 40, kFew = 10;
  Numbers x;
  for (int64_t i = 0; i < kChannels * kRows * kColumns; ++i)
    x.push_back(static_cast<float>((i * 7919 + i / 5) % 101) / 50 - 1);
  const auto pooled = [&](const Numbers& boxes) {
    const auto count = static_cast<int64_t>(boxes.size() / 4);
    ModelMaker m(16);
    m.Input("x", {1, kChannels, kRows, kColumns});
    m.Floats("boxes", {count, 4}, boxes);
    m.Ints("batch", std::vector<int64_t>(static_cast<size_t>(count), 0));
    onnx::NodeProto* node = m.Node("RoiAlign", {"x", "boxes", "batch"}, {"y"});
    Set(node, "output_height", int64_t{7});
    Set(node, "output_width", int64_t{7});
    m.Output("y");
    return Evaluate(m, {Data(DType::kF32, {1, kChannels, kRows, kColumns}, x)})[0];
  };
  for (const float end : {20.0f, 60.0f}) {  // of the last box
    Numbers boxes, expected;
    for (int64_t i = 0; i < kBoxes; ++i) {
      const auto at = static_cast<float>(i) / 3;
      boxes.insert(boxes.end(), {at, at / 2, at + 5 + at / 2, at / 2 + 17 - at});
      if (i + 1 == kBoxes) boxes[boxes.size() - 2] = boxes[boxes.size() - 1] = end;
    }
    for (auto from = boxes.begin(); from != boxes.end(); from += 4 * kFew) {
      const Numbers few = pooled(Numbers(from, from + 4 * kFew));
      expected.insert(expected.end(), few.begin(), few.end());
    }
    ExpectNear(pooled(boxes), expected);
  }
}

// Bins consist of whole elements, and overlap if they do not divide the region evenly. Outside the image
// there are no elements.
TEST(MaxRoiPoolTest, EachBinHasItsGreatestElement) {
  ModelMaker m;
  m.Input("x", {2, 1, 3, 4});
  m.Floats("regions", {3, 5}, {1, 0, 0, 6, 4, 0, 2, 1.9f, 3, 2, 0, 8, 0, 9, 1});
  onnx::NodeProto* node = m.Node("MaxRoiPool", {"x", "regions"}, {"y"});
  onnx::AttributeProto* shape = Attribute(node, "pooled_shape", onnx::AttributeProto::INTS);
  for (int64_t size : {2, 2}) shape->add_ints(size);
  Set(node, "spatial_scale", 0.5f);
  m.Output("y");
  Numbers x;
  for (int i = 0; i < 24; ++i) x.push_back(static_cast<float>(i));
  ExpectNear(Evaluate(m, {Data(DType::kF32, {2, 1, 3, 4}, x)})[0],
             {17, 19, 21, 23,  // columns 0 to 3 in halves, rows 0 and 1, 1 and 2
              5, 6, 5, 6,      // column 1 and 2 of row 1
              0, 0, 0, 0});    // beyond the last column
}

TEST(GemmTest, IntegersTakeFactorsThatAreNone) {
  ModelMaker m;
  m.Input("a", {1, 2}, onnx::TensorProto::INT32);
  m.Input("b", {2, 1}, onnx::TensorProto::INT32);
  onnx::NodeProto* node = m.Node("Gemm", {"a", "b"}, {"whole"});
  Set(node, "alpha", 0.5f);
  Set(m.Node("Cast", {"whole"}, {"y"}), "to", int64_t{onnx::TensorProto::FLOAT});
  m.Output("y");
  const std::vector<int32_t> a = {3, 5}, b = {2, 4};
  ExpectNear(Evaluate(m, {Data(DType::kI32, {1, 2}, a), Data(DType::kI32, {2, 1}, b)})[0], {13});
}

TEST(DeformConvTest, WithoutOffsetsIsAConvolution) {
  ModelMaker m(19);
  m.Input("x", {1, 1, 1, 3});
  m.Floats("w", {1, 1, 1, 2}, {1, 10});
  m.Floats("offsets", {1, 4, 1, 2}, Numbers(8));
  m.Node("DeformConv", {"x", "w", "offsets"}, {"y"});
  m.Output("y");
  ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 1, 1, 3}, Numbers{1, 2, 3})})[0], {21, 32});
}

TEST(ResizeTest, ARegionFarOutsideIsRefusedOrElseExtrapolated) {
  for (const float far : {3.0f, 1e30f}) {
    ModelMaker m;
    m.Input("x", {2});
    m.Floats("region", {2}, {far, far});
    m.Ints("sizes", {3});
    onnx::NodeProto* node = m.Node("Resize", {"x", "region", "", "sizes"}, {"y"});
    Set(node, "coordinate_transformation_mode", std::string("tf_crop_and_resize"));
    Set(node, "extrapolation_value", 9.0f);
    m.Output("y");
    if (far < 10) {
      ExpectNear(Evaluate(m, {Data(DType::kF32, {2}, Numbers{1, 2})})[0], {9, 9, 9});
    } else {
      EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"Resize", "a coordinate of 1e+30"}));
    }
  }
}

// A running sum works in blocks. Of 1,000 elements they have 125, of a prime number 128.
TEST(CumSumTest, BlocksThatDivideTheAxisNeedNoPadding) {
  for (const int64_t count : {int64_t{1000}, int64_t{1009}}) {
    ModelMaker m;
    m.Input("x", {1, count});
    m.Ints("axis", {1});
    m.Node("CumSum", {"x", "axis"}, {"y"});
    m.Output("y");
    Numbers expected;
    for (int64_t i = 0; i < count; ++i) expected.push_back(static_cast<float>(i + 1));
    const Numbers ones(static_cast<size_t>(count), 1);
    ExpectNear(Evaluate(m, {Data(DType::kF32, {1, count}, ones)})[0], expected);
    const auto graph = ImportModel(m.Make(), {}, nullptr);
    ASSERT_TRUE(graph.ok());
    bool pads = false;
    for (ir::NodeId id = 0; id < graph->size(); ++id) pads |= graph->node(id).op == ir::Op::kIndexedWrite;
    EXPECT_EQ(pads, count == 1009);
  }
}

}  // namespace
}  // namespace rondo
