// Operators that exporters of language models emit, against the same written out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "compiler/import/import.h"
#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

// One query head of `size` features over keys [from, to) of a cache, with a score that has no value beside.
Numbers AttendOnce(const float* q, const Numbers& keys, const Numbers& values, size_t from, size_t to,
                   size_t size, float cap, const float* sink) {
  std::vector<double> scores;
  double sum = sink == nullptr ? 0 : std::exp(static_cast<double>(*sink));
  for (size_t j = from; j < to; ++j) {
    double dot = 0;
    for (size_t i = 0; i < size; ++i) dot += static_cast<double>(q[i]) * keys[j * size + i];
    dot /= std::sqrt(static_cast<double>(size));
    if (cap != 0) dot = cap * std::tanh(dot / cap);
    scores.push_back(std::exp(dot));
    sum += scores.back();
  }
  Numbers out(size);
  for (size_t j = from; j < to; ++j) {
    for (size_t i = 0; i < size; ++i)
      out[i] += static_cast<float>(scores[j - from] / sum * values[j * size + i]);
  }
  return out;
}

struct Step {
  int64_t window = -1;
  float softcap = 0;
  bool sink = false;
  bool sliding = false;
};

// A step of one token over a cache of 6 positions, 3 of them filled: two heads of 8 that share keys and
// values.
void ExpectStep(const Step& step) {
  constexpr int64_t kSize = 8, kPositions = 6, kFilled = 3;
  ModelMaker m;
  m.Input("qkv", {1, 1, 4 * kSize});
  m.Input("past_k", {1, 1, kPositions, kSize});
  m.Input("past_v", {1, 1, kPositions, kSize});
  m.Input("last", {1}, onnx::TensorProto::INT32);
  m.Input("total", {}, onnx::TensorProto::INT32);
  const Numbers sinks = {0.5f, -1};
  std::vector<std::string> inputs = {"qkv", "", "", "past_k", "past_v", "last", "total"};
  if (step.sink) {
    m.Floats("sinks", {2}, sinks);
    inputs.insert(inputs.end(), {"", "", "", "", "sinks"});
  }
  onnx::NodeProto* node = Microsoft(m, "GroupQueryAttention", inputs, {"y", "k", "v"});
  Set(node, "num_heads", int64_t{2});
  Set(node, "kv_num_heads", int64_t{1});
  Set(node, "local_window_size", step.window);
  Set(node, "softcap", step.softcap);
  if (step.sliding) Set(node, "sliding_window_cache", int64_t{1});
  for (const char* name : {"y", "k", "v"}) m.Output(name);

  const Numbers qkv = Random(4 * kSize, 1);
  Numbers keys = Random(kPositions * kSize, 2), values = Random(kPositions * kSize, 3);
  const auto out = Evaluate(
      m, {Data(DType::kF32, {1, 1, 4 * kSize}, qkv), Data(DType::kF32, {1, 1, kPositions, kSize}, keys),
          Data(DType::kF32, {1, 1, kPositions, kSize}, values),
          Data(DType::kI32, {1}, std::vector<int32_t>{kFilled}),
          Data(DType::kI32, {}, std::vector<int32_t>{kFilled + 1})});
  std::copy_n(&qkv[2 * kSize], kSize, &keys[kFilled * kSize]);
  std::copy_n(&qkv[3 * kSize], kSize, &values[kFilled * kSize]);
  Numbers expected;
  const size_t from = step.window < 0 ? 0 : static_cast<size_t>(kFilled + 1 - step.window);
  for (size_t head = 0; head < 2; ++head) {
    const Numbers one = AttendOnce(&qkv[head * kSize], keys, values, from, kFilled + 1, kSize, step.softcap,
                                   step.sink ? &sinks[head] : nullptr);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  ExpectNear(out[0], expected);
  ExpectNear(out[1], keys);
  ExpectNear(out[2], values);
}

TEST(GroupQueryAttentionTest, WritesWhereLengthsSayAndSeesNothingBeyond) { ExpectStep({}); }
TEST(GroupQueryAttentionTest, AWindowCountsTheQueryItself) { ExpectStep({.window = 2}); }
TEST(GroupQueryAttentionTest, ACacheOfAWindowHoldsAllPositions) {
  ExpectStep({.window = 2, .sliding = true});
}
TEST(GroupQueryAttentionTest, ScoresAreCapped) { ExpectStep({.softcap = 0.5f}); }
TEST(GroupQueryAttentionTest, ASinkTakesItsShareOfEachHead) { ExpectStep({.sink = true}); }

TEST(GroupQueryAttentionTest, WhatItLacksIsRefusedWithWhatToDo) {
  for (const auto& [name, value, says] :
       {std::tuple{"sliding_window_cache", 1, "it needs a local_window_size"},
        std::tuple{"qk_output", 3, "2 their softmax"}}) {
    ModelMaker m;
    m.Input("qkv", {1, 1, 32});
    m.Input("last", {1}, onnx::TensorProto::INT32);
    m.Input("total", {}, onnx::TensorProto::INT32);
    onnx::NodeProto* node =
        Microsoft(m, "GroupQueryAttention", {"qkv", "", "", "", "", "last", "total"}, {"y"});
    Set(node, "num_heads", int64_t{2});
    Set(node, "kv_num_heads", int64_t{1});
    Set(node, name, int64_t{value});
    m.Output("y");
    auto graph = ImportModel(m.Make(), {}, nullptr);
    EXPECT_TRUE(Says(graph.status(), {"GroupQueryAttention \"GroupQueryAttention_y\"", name, says}));
  }
}

// ------------------------------------------------------------------------------------------ weights

// 2 rows of 20 numbers of 4 bits in blocks of 16: number i of row n is (i + 3 n) % 16.
std::string PackedRows() {
  std::string bytes;
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 32; i += 2) bytes += static_cast<char>((i + 3 * n) % 16 | (i + 1 + 3 * n) % 16 << 4);
  }
  return bytes;
}

TEST(MatMulNBitsTest, BlocksHaveScalesAndZeroPointsOfTheirOwn) {
  for (const bool constant : {true, false}) {  // folded, or unpacked in the run
    ModelMaker m;
    m.Input("a", {1, 20});
    if (constant) {
      Bytes(m, "b", {2, 2, 8}, PackedRows());
    } else {
      m.Input("b", {2, 2, 8}, onnx::TensorProto::UINT8);
    }
    m.Floats("scales", {4}, {1, 0.5f, 2, 0.25f});
    Bytes(m, "zeros", {2}, std::string("\x21\x43", 2));
    onnx::NodeProto* node = Microsoft(m, "MatMulNBits", {"a", "b", "scales", "zeros"}, {"y"});
    Set(node, "K", int64_t{20});
    Set(node, "N", int64_t{2});
    Set(node, "block_size", int64_t{16});
    m.Output("y");
    const Numbers a = Random(20, 4);
    ir::Values inputs = {Data(DType::kF32, {1, 20}, a)};
    const std::string packed = PackedRows();
    if (!constant)
      inputs.push_back(Data(DType::kU8, {2, 2, 8}, std::vector<char>(packed.begin(), packed.end())));
    constexpr float kScales[] = {1, 0.5f, 2, 0.25f};
    constexpr int kZeros[] = {1, 2, 3, 4};
    Numbers expected(2);
    for (int n = 0; n < 2; ++n) {
      for (int k = 0; k < 20; ++k) {
        const int block = 2 * n + k / 16;
        expected[static_cast<size_t>(n)] +=
            a[static_cast<size_t>(k)] * static_cast<float>((k + 3 * n) % 16 - kZeros[block]) * kScales[block];
      }
    }
    ExpectNear(Evaluate(m, inputs)[0], expected);
  }
}

// Which group a row has, where GPTQ has taken rows in another order: as many of each as a block has, or more
// and fewer, or none. With 16 rows of weights they stay packed.
TEST(MatMulNBitsTest, GroupsMayHaveAnyRows) {
  constexpr size_t kK = 64, kBlock = 16, kGroups = kK / kBlock;
  const std::vector<std::function<size_t(size_t)>> rules = {
      [](size_t k) { return k * 5 % kK / kBlock; }, [](size_t k) { return k % 5 == 0 ? size_t{1} : k % 4; },
      [](size_t k) { return k < 63 ? size_t{2} : size_t{0}; }, [](size_t) { return size_t{3}; }};
  for (const size_t n : {size_t{1}, size_t{16}}) {
    for (const bool zeros : {false, true}) {
      for (const auto& group : rules) {
        ModelMaker m;
        m.Input("a", {1, kK});
        std::string codes, zero_points(n * kGroups / 2, '\0');
        for (size_t i = 0; i < n * kK / 2; ++i) codes += static_cast<char>(i * 37 + 11);
        for (size_t i = 0; i < zero_points.size(); ++i) zero_points[i] = static_cast<char>(i * 29 + 3);
        const Numbers scales = Random(n * kGroups, 8), a = Random(kK, 4);
        Bytes(m, "b", {static_cast<int64_t>(n), kGroups, kBlock / 2}, codes);
        m.Floats("scales", {static_cast<int64_t>(n * kGroups)}, scales);
        Bytes(m, "zeros", {static_cast<int64_t>(n * kGroups / 2)}, zero_points);
        std::vector<int64_t> groups;
        for (size_t k = 0; k < kK; ++k) groups.push_back(static_cast<int64_t>(group(k)));
        m.Ints("groups", groups);
        onnx::NodeProto* node =
            Microsoft(m, "MatMulNBits", {"a", "b", "scales", zeros ? "zeros" : "", "groups"}, {"y"});
        Set(node, "K", static_cast<int64_t>(kK));
        Set(node, "N", static_cast<int64_t>(n));
        Set(node, "block_size", static_cast<int64_t>(kBlock));
        m.Output("y");
        const auto half = [](const std::string& bytes, size_t i) {
          return (static_cast<uint8_t>(bytes[i / 2]) >> (i % 2 * 4)) & 15;
        };
        Numbers expected(n);
        for (size_t i = 0; i < n * kK; ++i) {
          const size_t at = i / kK * kGroups + group(i % kK);
          const int zero = zeros ? half(zero_points, at) : 8;
          expected[i / kK] += a[i % kK] * static_cast<float>(half(codes, i) - zero) * scales[at];
        }
        ExpectNear(Evaluate(m, {Data(DType::kF32, {1, kK}, a)})[0], expected);
      }
    }
  }
  ModelMaker beyond;
  beyond.Input("a", {1, 32});
  Bytes(beyond, "b", {1, 2, 8}, PackedRows().substr(0, 16));
  beyond.Floats("scales", {2}, {1, 0.25f});
  beyond.Ints("groups", std::vector<int64_t>(32, 2));
  onnx::NodeProto* node = Microsoft(beyond, "MatMulNBits", {"a", "b", "scales", "", "groups"}, {"y"});
  Set(node, "K", int64_t{32});
  Set(node, "N", int64_t{1});
  Set(node, "block_size", int64_t{16});
  beyond.Output("y");
  EXPECT_TRUE(Says(ImportModel(beyond.Make(), {}, nullptr).status(),
                   {"MatMulNBits \"MatMulNBits_y\"", "row 0 into group 2 of 2"}));
}

TEST(MatMulNBitsTest, OtherLayoutsAndWidthsAreRefused) {
  for (const auto& [name, value, says] :
       {std::tuple{"bits", 3, "weights of 3 bits"}, std::tuple{"weight_prepacked", 1, "export with 0"},
        std::tuple{"block_size", 8, "blocks of 8"}}) {
    ModelMaker m;
    m.Input("a", {1, 20});
    Bytes(m, "b", {2, 2, 8}, PackedRows());
    m.Floats("scales", {4}, {1, 1, 1, 1});
    onnx::NodeProto* node = Microsoft(m, "MatMulNBits", {"a", "b", "scales"}, {"y"});
    Set(node, "K", int64_t{20});
    Set(node, "N", int64_t{2});
    Set(node, name, int64_t{value});
    if (std::string(name) != "block_size") Set(node, "block_size", int64_t{16});
    m.Output("y");
    EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"MatMulNBits \"MatMulNBits_y\"", says}));
  }
}

TEST(GatherBlockQuantizedTest, RowsBeyondTheTableAreZeros) {
  ModelMaker m;
  m.Input("index", {4}, onnx::TensorProto::INT64);
  Bytes(m, "table", {2, 16}, PackedRows());
  m.Floats("scales", {2, 2}, {1, 0.5f, 2, 0.25f});
  onnx::NodeProto* node = Microsoft(m, "GatherBlockQuantized", {"table", "index", "scales"}, {"y"});
  Set(node, "block_size", int64_t{16});
  m.Output("y");
  const Numbers y = Evaluate(m, {Data(DType::kI64, {4}, std::vector<int64_t>{1, 2, -3, -1})})[0];
  ASSERT_EQ(y.size(), 4u * 32);
  for (size_t k = 0; k < 32; ++k) {
    const float number = static_cast<float>((k + 3) % 16) - 8;
    EXPECT_FLOAT_EQ(y[k], number * (k < 16 ? 2.0f : 0.25f));
    EXPECT_EQ(y[32 + k], 0);
    EXPECT_EQ(y[64 + k], 0);
    EXPECT_EQ(y[96 + k], y[k]);
  }
}

TEST(NarrowWeights, OddCountsAndSignsComeOutOfTheirBytes) {
  constexpr int kInt4 = 22;
  ModelMaker m(21);
  Bytes(m, "w", {3}, std::string("\x8f\x07", 2), kInt4);  // -1, -8, 7
  m.Floats("scale", {}, {2});
  m.Node("DequantizeLinear", {"w", "scale"}, {"y"});
  m.Output("y");
  ExpectNear(Evaluate(m, {})[0], {-2, -16, 14});
}

// ONNX Runtime's quantiser writes these where the model's opset lacks the type, or with UseQDQContribOps.
TEST(NarrowWeights, TheDomainOfContribsQuantisesAndDequantisesAsWell) {
  constexpr int kInt4 = 22;
  ModelMaker m(17);
  m.Input("x", {3});
  Bytes(m, "w", {3}, std::string("\x8f\x07", 2), kInt4);  // -1, -8, 7
  Bytes(m, "zero", {}, std::string(1, '\x80'));
  m.Floats("scale", {}, {2});
  Microsoft(m, "QuantizeLinear", {"x", "scale", "zero"}, {"q"});
  Microsoft(m, "DequantizeLinear", {"q", "scale", "zero"}, {"y"});
  Microsoft(m, "DequantizeLinear", {"w", "scale"}, {"z"});
  m.Output("y");
  m.Output("z");
  const auto got = Evaluate(m, {Data(DType::kF32, {3}, std::vector<float>{3.5f, -5.0f, 1000.0f})});
  ExpectNear(got[0], {4, -4, 254});
  ExpectNear(got[1], {-2, -16, 14});
}

TEST(NarrowWeights, WhatDoesNotDequantiseThemRefusesThem) {
  constexpr int kUint4 = 21;
  ModelMaker m(21);
  m.Input("x", {4});
  m.Floats("scale", {}, {2});
  Bytes(m, "zero", {}, std::string(1, '\3'), kUint4);
  m.Node("QuantizeLinear", {"x", "scale", "zero"}, {"q"});
  m.Node("Relu", {"q"}, {"y"});
  m.Output("y");
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(),
                   {"Relu \"Relu_y\"", "input 0", "4 bits", "DequantizeLinear"}));
  m.graph()->mutable_node()->RemoveLast();
  m.graph()->mutable_output(0)->set_name("q");
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"output \"q\"", "4 bits", "dequantise"}));
}

// The types that only weights have in a plan, of what a run computes.
struct NarrowRounding {
  int type;
  Numbers numbers, rounded;
};

void ExpectRounded(const NarrowRounding& c, const std::string& quantize, const std::string& domain) {
  ModelMaker m(21);
  m.Input("x", {static_cast<int64_t>(c.numbers.size())});
  m.Floats("scale", {}, {2});
  const bool tells = quantize == "QuantizeLinear";  // which type by a zero point
  if (tells) Bytes(m, "zero", {}, std::string(1, '\0'), c.type);
  std::vector<std::string> inputs = {"x", "scale"};
  if (tells) inputs.push_back("zero");
  m.Node(quantize, inputs, {"q"})->set_domain(domain);
  m.Node("DequantizeLinear", {"q", "scale"}, {"y"});
  m.Output("y");
  Numbers given = c.numbers, expected = c.rounded;
  for (float& x : given) x *= 2;
  for (float& x : expected) x *= 2;
  const Shape shape = {static_cast<int64_t>(given.size())};
  EXPECT_EQ(Evaluate(m, {Data(DType::kF32, shape, given)})[0], expected) << quantize << " " << c.type;
}

TEST(NarrowNumbers, AreTheNearestOnesAndTiesAreEven) {
  const float infinite = INFINITY;
  const NarrowRounding e4m3 = {
      17,
      {0, 1.0625f, 1.1875f, -1.0626f, 464, 500, infinite, 0x1p-10f, 0x1.8p-9f, 0.0154f},
      {0, 1, 1.25f, -1.125f, 448, 448, 448, 0, 0x1p-8f, 0.015625f}};
  ExpectRounded(e4m3, "QuantizeLinear", "");
  ExpectRounded(e4m3, "TRT_FP8QuantizeLinear", "trt");
  ExpectRounded({19, {1.125f, 1.375f, -7e4f, 0x1.8p-16f, 0x1p-18f}, {1, 1.5f, -57344, 0x1p-15f, 0}},
                "QuantizeLinear", "");
  ExpectRounded({23, {0.25f, 0.3f, 0.75f, 1.25f, 2.5f, 5, -9}, {0, 0.5f, 1, 1, 2, 4, -6}}, "QuantizeLinear",
                "");
  ExpectRounded(
      {18, {0, 1.0625f, 233, 250, -infinite, 0x1p-11f, 0x1.8p-10f}, {0, 1, 240, 240, -240, 0, 0x1p-9f}},
      "QuantizeLinear", "");
  ExpectRounded({20, {1.125f, 1.375f, -7e4f, 0x1p-17f, 0x1p-18f}, {1, 1.5f, -57344, 0x1p-17f, 0}},
                "QuantizeLinear", "");
  ExpectRounded({22, {0.5f, 1.5f, 7.6f, -9}, {0, 2, 7, -8}}, "QuantizeLinear", "");
  ExpectRounded({22, {0.5f, 1.5f, 7.6f, -9}, {0, 2, 7, -8}}, "TRT_INT4QuantizeLinear", "trt");
  ExpectRounded({21, {0.5f, 1.5f, 15.6f, -9}, {0, 2, 15, 0}}, "QuantizeLinear", "");
}

TEST(NarrowNumbers, WithoutSaturationWhatIsTooLargeIsInfiniteOrNoNumber) {
  struct Case {
    int type;
    float most, beyond, instead;
  };
  for (const Case& c : {Case{17, 464, 465, NAN}, Case{18, 247, 248, NAN}, Case{19, 61439, 61440, INFINITY},
                        Case{20, 61439, 61440, NAN}}) {
    ModelMaker m(21);
    m.Input("x", {3});
    onnx::NodeProto* cast = m.Node("Cast", {"x"}, {"q"});
    Set(cast, "to", int64_t{c.type});
    Set(cast, "saturate", int64_t{0});
    Set(m.Node("Cast", {"q"}, {"y"}), "to", int64_t{onnx::TensorProto::FLOAT});
    m.Output("y");
    const Numbers y = Evaluate(m, {Data(DType::kF32, {3}, Numbers{c.most, c.beyond, -c.beyond})})[0];
    EXPECT_TRUE(std::isfinite(y[0])) << c.type;
    EXPECT_TRUE(std::isnan(c.instead) ? std::isnan(y[1]) && std::isnan(y[2])
                                      : y[1] == c.instead && y[2] == -c.instead)
        << c.type << ": " << y[1] << ", " << y[2];
  }
}

bool HasPacked(ModelMaker& m) {
  const auto graph = ImportModel(m.Make(), {}, nullptr);
  for (ir::NodeId id = 0; id < graph->size(); ++id) {
    const ir::Node& node = graph->node(id);
    if (!node.dead && node.op == ir::Op::kConstant && node.As<ir::ConstantAttrs>().data->packed != nullptr)
      return true;
  }
  return false;
}

// 0x40 is 2, or, of FNUZ types, 1; 0x7f is a number of these, 0x80 none.
TEST(NarrowWeights, OfFp8StayPackedBehindACastAndInEveryType) {
  for (const auto& [type, code, number] :
       {std::tuple{17, '\x40', 2.0f}, std::tuple{18, '\x40', 1.0f}, std::tuple{19, '\x40', 2.0f},
        std::tuple{20, '\x40', 1.0f}, std::tuple{18, '\x7f', 240.0f}, std::tuple{20, '\x7f', 57344.0f}}) {
    for (const bool cast : {true, false}) {
      ModelMaker m(21);
      m.Input("x", {1, 32});
      Bytes(m, "w", {32, 16}, std::string(512, code), type);
      m.Floats("scale", {}, {1});
      if (cast) {
        Set(m.Node("Cast", {"w"}, {"wide"}), "to", int64_t{onnx::TensorProto::FLOAT});
      } else {
        m.Node("DequantizeLinear", {"w", "scale"}, {"wide"});
      }
      m.Node("MatMul", {"x", "wide"}, {"y"});
      m.Output("y");
      ExpectNear(Evaluate(m, {Data(DType::kF32, {1, 32}, Numbers(32, 1))})[0], Numbers(16, 32 * number));
      EXPECT_TRUE(HasPacked(m)) << type;
    }
  }
  ModelMaker none(21);
  none.Input("x", {1, 32});
  Bytes(none, "w", {32, 16}, std::string(512, '\x80'), 18);
  Set(none.Node("Cast", {"w"}, {"wide"}), "to", int64_t{onnx::TensorProto::FLOAT});
  none.Node("MatMul", {"x", "wide"}, {"y"});
  none.Output("y");
  EXPECT_TRUE(std::isnan(Evaluate(none, {Data(DType::kF32, {1, 32}, Numbers(32, 1))})[0][0]));
}

// Weights of a quantised LSTM stay bytes.
TEST(NarrowWeights, OfDynamicQuantizeLstmStayPacked) {
  constexpr int64_t kInput = 32, kHidden = 32;
  const auto bytes = [](int64_t count, int step) {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += static_cast<char>(i * step % 9 + 124 - (i % 2 * 8));
    return text;
  };
  for (const bool packed : {true, false}) {  // the same numbers as inputs are computed with as they come
    ModelMaker m;
    m.Input("x", {2, 1, kInput});
    const std::string w = bytes(kInput * 4 * kHidden, 5), r = bytes(kHidden * 4 * kHidden, 7);
    ir::Values inputs = {Data(DType::kF32, {2, 1, kInput}, Random(2 * kInput, 3))};
    if (packed) {
      Bytes(m, "w", {1, kInput, 4 * kHidden}, w);
      Bytes(m, "r", {1, kHidden, 4 * kHidden}, r);
    } else {
      m.Input("w", {1, kInput, 4 * kHidden}, onnx::TensorProto::UINT8);
      m.Input("r", {1, kHidden, 4 * kHidden}, onnx::TensorProto::UINT8);
      inputs.push_back(Data(DType::kU8, {1, kInput, 4 * kHidden}, std::vector<char>(w.begin(), w.end())));
      inputs.push_back(Data(DType::kU8, {1, kHidden, 4 * kHidden}, std::vector<char>(r.begin(), r.end())));
    }
    m.Floats("scale", {1}, {0.02f});
    Bytes(m, "zero", {1}, std::string(1, '\x7c'));
    onnx::NodeProto* node =
        Microsoft(m, "DynamicQuantizeLSTM",
                  {"x", "w", "r", "", "", "", "", "", "scale", "zero", "scale", "zero"}, {"y"});
    Set(node, "hidden_size", kHidden);
    m.Output("y");
    EXPECT_EQ(HasPacked(m), packed);
    static Numbers first;
    const Numbers y = Evaluate(m, inputs)[0];
    if (packed) first = y;
    ExpectNear(y, first);
  }
}

// Blocks of FP4 with scales in FP8, of activations and of weights: the latter stay packed.
TEST(NarrowNumbers, ScalesMayBeDequantisedThemselves) {
  ModelMaker m(23);
  m.Input("x", {1, 512});
  m.Floats("all", {}, {0.25f});
  Bytes(m, "w", {32, 512}, std::string(8192, '\x2f'), 23);         // -6, 1
  Bytes(m, "of_blocks", {32, 32}, std::string(1024, '\x40'), 17);  // 2
  m.Node("DequantizeLinear", {"of_blocks", "all"}, {"scales"});
  onnx::NodeProto* weight = m.Node("DequantizeLinear", {"w", "scales"}, {"wide"});
  onnx::NodeProto* quantize = m.Node("TRT_FP4DynamicQuantize", {"x", "all"}, {"numbers", "parts"});
  quantize->set_domain("trt");
  m.Node("DequantizeLinear", {"parts", "all"}, {"scale"});
  onnx::NodeProto* back = m.Node("DequantizeLinear", {"numbers", "scale"}, {"rounded"});
  for (onnx::NodeProto* node : {weight, quantize, back}) {
    Set(node, "axis", int64_t{-1});
    Set(node, "block_size", int64_t{16});
  }
  m.Node("Transpose", {"wide"}, {"turned"});
  m.Node("MatMul", {"rounded", "turned"}, {"y"});
  m.Output("rounded");
  m.Output("y");
  Numbers x(512), expected(512);
  x[0] = 12, x[1] = 5.1f, x[16] = -3, x[17] = 0.74f;  // scales 2 and 0.5
  expected[0] = 12, expected[1] = 6, expected[16] = -3, expected[17] = 0.75f;
  const auto got = Evaluate(m, {Data(DType::kF32, {1, 512}, x)});
  ExpectNear(got[0], expected);
  ExpectNear(got[1], Numbers(32, 0.5f * (-6 * (12 - 3) + 6 + 0.75f)));
  EXPECT_TRUE(HasPacked(m));
}

// --------------------------------------------------------------- operators that are others with something on

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
  // Scores log 1, log 3 and nothing: a quarter of expert 0 and three of expert 1.
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
