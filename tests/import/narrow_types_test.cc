// Narrow types: which weights stay packed, and the values after rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/import/import.h"
#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

TEST(NarrowWeights, OddCountsAndSignsComeOutOfTheirBytes) {
  constexpr int kInt4 = 22;
  ModelMaker m(21);
  Bytes(m, "w", {3}, std::string("\x8f\x07", 2), kInt4);  // -1, -8, 7
  m.Floats("scale", {}, {2});
  m.Node("DequantizeLinear", {"w", "scale"}, {"y"});
  m.Output("y");
  ExpectNear(Evaluate(m, {})[0], {-2, -16, 14});
}

// ONNX Runtime's quantiser writes com.microsoft's operators if the model's opset lacks the type, or with
// UseQDQContribOps.
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
}

// Every code converts to its number and back; a value between two numbers becomes the nearer one, or the even
// one.
TEST(Fp8Numbers, AreRoundedToTheNearest) {
  for (const Fp8Format& format : {kE4M3Format, kE5M2Format}) {
    for (uint32_t i = 0; i < 256; ++i) {
      const auto code = static_cast<uint8_t>(i);
      const float number = Fp8ToFloat(format, code);
      EXPECT_EQ(FloatToFp8(format, number), std::isnan(number) ? 0x7f : code);
    }
    for (uint32_t i = 0; i < format.greatest; ++i) {
      const auto low = static_cast<uint8_t>(i), high = static_cast<uint8_t>(i + 1);
      const float middle = (Fp8ToFloat(format, low) + Fp8ToFloat(format, high)) / 2;
      EXPECT_EQ(FloatToFp8(format, middle), low % 2 == 0 ? low : high);
      EXPECT_EQ(FloatToFp8(format, std::nextafter(middle, 0.0f)), low);
      EXPECT_EQ(FloatToFp8(format, -std::nextafter(middle, INFINITY)), high | 0x80);
    }
    EXPECT_EQ(FloatToFp8(format, -1e30f), format.greatest | 0x80);
  }
  EXPECT_EQ(E4M3ToFloat(0x7e), 448);
  EXPECT_EQ(FloatToE4M3(INFINITY), 0x7e);
  EXPECT_EQ(E5M2ToFloat(0x7b), 57344);
  EXPECT_EQ(E5M2ToFloat(0xfc), -INFINITY);
  EXPECT_EQ(FloatToE5M2(INFINITY), 0x7c);
}

// NaN and the infinities of E5M2 are kept in weights.
TEST(NarrowWeights, OfFp8KeepWhatIsNoNumber) {
  for (const int type : {17, 19}) {
    ModelMaker m(21);
    m.Input("x", {1, 2});
    Bytes(
        m, "w", {2, 3},
        type == 17 ? std::string("\x38\x7f\x38\x38\x38\xff", 6) : std::string("\x3c\x7e\x7c\x3c\x3c\x3c", 6),
        type);
    m.Floats("scale", {}, {2});
    m.Node("DequantizeLinear", {"w", "scale"}, {"wide"});
    m.Node("MatMul", {"x", "wide"}, {"y"});
    m.Output("y");
    const Numbers y = Evaluate(m, {Data(DType::kF32, {1, 2}, Numbers{1, 1})})[0];
    EXPECT_EQ(y[0], 4);
    EXPECT_TRUE(std::isnan(y[1]));
    EXPECT_TRUE(type == 17 ? std::isnan(y[2]) : y[2] == INFINITY);
  }
}

// Values of a run rounded to types that a plan has only for weights.
struct NarrowRounding {
  int type;
  Numbers numbers, rounded;
};

void ExpectRounded(const NarrowRounding& c, const std::string& quantize, const std::string& domain) {
  ModelMaker m(21);
  m.Input("x", {static_cast<int64_t>(c.numbers.size())});
  m.Floats("scale", {}, {2});
  const bool tells = quantize == "QuantizeLinear";  // the zero point gives the type
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

// 0x40 is 2, or 1 in the FNUZ types. 0x7f is a number only in these, so packed weights cannot hold it. 0x80
// is their NaN.
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
      EXPECT_EQ(HasPacked(m), code != '\x7f') << type;
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
  for (const bool packed : {true, false}) {  // as inputs, the same numbers are not packed
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

// Two steps: the inputs of both steps at once, and the state between them, are multiplied in 8 bits.
TEST(DynamicQuantizeLstm, RoundsWhatItMultiplies) {
  constexpr int64_t kInput = 5, kHidden = 3, kBatch = 2, kWide = 4 * kHidden;
  constexpr float kScale = 0.02f;
  const auto weight = [](int64_t rows, int64_t seed) {  // also transposed, as real numbers
    std::pair<std::string, Numbers> both;
    for (int64_t i = 0; i < rows * kWide; ++i) both.first += static_cast<char>((i * seed) % 101 - 50);
    for (int64_t column = 0; column < kWide; ++column) {
      for (int64_t row = 0; row < rows; ++row)
        both.second.push_back(kScale * both.first[static_cast<size_t>(row * kWide + column)]);
    }
    return both;
  };
  const auto w = weight(kInput, 37), r = weight(kHidden, 59);
  const auto x = Data(DType::kF32, {2, kBatch, kInput}, Random(2 * kBatch * kInput, 3));
  ModelMaker one, pieces;
  for (ModelMaker* m : {&one, &pieces}) m->Input("x", {2, kBatch, kInput});
  Bytes(one, "w", {1, kInput, kWide}, w.first, onnx::TensorProto::INT8);
  Bytes(one, "r", {1, kHidden, kWide}, r.first, onnx::TensorProto::INT8);
  one.Floats("scale", {1}, {kScale});
  Bytes(one, "zero", {1}, std::string(1, '\0'), onnx::TensorProto::INT8);
  Set(Microsoft(one, "DynamicQuantizeLSTM",
                {"x", "w", "r", "", "", "", "", "", "scale", "zero", "scale", "zero"}, {"", "h", "c"}),
      "hidden_size", kHidden);
  pieces.Floats("w", {1, kWide, kInput}, w.second);
  pieces.Floats("r", {1, kWide, kHidden}, r.second);
  const auto rounded = [&](const std::string& of) {
    pieces.Node("DynamicQuantizeLinear", {of}, {of + "_q", of + "_s", of + "_z"});
    pieces.Node("DequantizeLinear", {of + "_q", of + "_s", of + "_z"}, {of + "_rounded"});
    return of + "_rounded";
  };
  Set(pieces.Node("Split", {rounded("x")}, {"first", "second"}), "axis", int64_t{0});
  Set(pieces.Node("LSTM", {"first", "w", "r"}, {"", "h1", "c1"}), "hidden_size", kHidden);
  Set(pieces.Node("LSTM", {"second", "w", "r", "", "", rounded("h1"), "c1"}, {"", "h", "c"}), "hidden_size",
      kHidden);
  for (ModelMaker* m : {&one, &pieces}) m->Output("h"), m->Output("c");
  const auto got = Evaluate(one, {x}), expected = Evaluate(pieces, {x});
  for (size_t output = 0; output < 2; ++output) {
    for (size_t i = 0; i < expected[output].size(); ++i)
      EXPECT_NEAR(got[output][i], expected[output][i], 1e-6) << output << ", " << i;
  }
}

// Activations and weights in blocks of FP4 with scales in FP8. The weights stay packed.
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

// A Cast to powers of two (E8M0) gives the results of ONNX Runtime 1.32.
TEST(PowersOfTwo, AreRoundedToUpDownOrToTheNearest) {
  const float none = NAN, least = 0x1p-127f, most = 0x1p127f;
  const Numbers given = {0,         1,           1.1f,        1.5f,  1.6f,     2,   3,  0x1p-130f, least,
                         0x1p-126f, 0x1.8p-126f, 0x1.8p-127f, 3e38f, INFINITY, NAN, -3, 0.1f,      1e30f};
  struct Case {
    const char* mode;
    Numbers expected;
  };
  const Case cases[] = {
      {"up",
       {least, 1, 2, 2, 2, 2, 4, least, least, 0x1p-126f, 0x1p-125f, 0x1p-126f, most, most, none, least,
        0.125f, 0x1p100f}},
      {"down",
       {least, 1, 1, 1, 1, 2, 2, least, least, 0x1p-126f, 0x1p-126f, least, most, most, none, least, 0.0625f,
        0x1p99f}},
      {"nearest",
       {least, 1, 1, 2, 2, 2, 4, least, least, 0x1p-126f, 0x1p-125f, 0x1p-126f, most, most, none, least,
        0.125f, 0x1p100f}},
  };
  const auto shape = Shape({static_cast<int64_t>(given.size())});
  for (const Case& c : cases) {
    for (const int64_t saturate : {1, 0}) {
      ModelMaker m(24);
      m.Input("x", {static_cast<int64_t>(given.size())});
      onnx::NodeProto* to = m.Node("Cast", {"x"}, {"power"});
      Set(to, "to", int64_t{24});
      Set(to, "round_mode", std::string(c.mode));
      Set(to, "saturate", saturate);
      Set(m.Node("Cast", {"power"}, {"y"}), "to", int64_t{onnx::TensorProto::FLOAT});
      m.Output("y");
      const Numbers got = Evaluate(m, {Data(DType::kF32, shape, given)})[0];
      for (size_t i = 0; i < given.size(); ++i) {
        const bool outside = !(given[i] >= least && given[i] <= most);
        const float expected = outside && saturate == 0 ? none : c.expected[i];
        if (std::isnan(expected)) {
          EXPECT_TRUE(std::isnan(got[i])) << c.mode << " " << given[i];
        } else {
          EXPECT_EQ(got[i], expected) << c.mode << " " << given[i];
        }
      }
    }
  }
}

// Numbers so close to a power that a logarithm would round to it.
TEST(PowersOfTwo, AreExactNextToThem) {
  Numbers given, expected;
  for (int i = -126; i <= 127; ++i) {
    const float power = std::ldexp(1.0f, i);
    for (const float x : {std::nextafter(power, 0.0f), power, std::nextafter(power, INFINITY)}) {
      given.push_back(x);
      expected.push_back(x > power && i < 127 ? 2 * power : power);
    }
  }
  const auto count = static_cast<int64_t>(given.size());
  ModelMaker m(24);
  m.Input("x", {count});
  Set(m.Node("Cast", {"x"}, {"power"}), "to", int64_t{24});
  Set(m.Node("Cast", {"power"}, {"y"}), "to", int64_t{onnx::TensorProto::FLOAT});
  m.Output("y");
  EXPECT_EQ(Evaluate(m, {Data(DType::kF32, {count}, given)})[0], expected);
}

// Every code, in each way in which a file can hold it. 255 is NaN.
TEST(PowersOfTwo, AreReadFromTheirCodes) {
  ModelMaker m(25);
  Bytes(m, "powers", {2, 3}, std::string("\x00\x01\x7f\x80\xfe\xff", 6), 24);
  Set(m.Node("Cast", {"powers"}, {"y"}), "to", int64_t{onnx::TensorProto::FLOAT});
  m.Output("y");
  const Numbers y = Evaluate(m, {})[0];
  EXPECT_EQ(Numbers(y.begin(), y.begin() + 5), Numbers({0x1p-127f, 0x1p-126f, 1, 2, 0x1p127f}));
  EXPECT_TRUE(std::isnan(y[5]));
}

// MXFP4: blocks of 32 with such scales, for values rounded in a run and for a weight, which stays packed.
TEST(PowersOfTwo, ScaleBlocks) {
  ModelMaker m(25);
  m.Input("x", {1, 64});
  Bytes(m, "w", {32, 64}, std::string(1024, '\x2f'), 23);  // -6, 1
  std::string powers;
  for (int i = 0; i < 32; ++i) powers += i == 9 ? "\x20\x20" : "\x80\x7d";  // 2^-95; 2, 1/4
  Bytes(m, "scales", {32, 2}, powers, 24);
  Bytes(m, "of_x", {1, 2}, std::string("\x7e\x81", 2), 24);  // 1/2, 4
  onnx::NodeProto* weight = m.Node("DequantizeLinear", {"w", "scales"}, {"wide"});
  onnx::NodeProto* quantize = m.Node("QuantizeLinear", {"x", "of_x"}, {"q"});
  onnx::NodeProto* back = m.Node("DequantizeLinear", {"q", "of_x"}, {"rounded"});
  for (onnx::NodeProto* node : {weight, quantize, back}) {
    Set(node, "axis", int64_t{-1});
    Set(node, "block_size", int64_t{32});
  }
  Set(quantize, "output_dtype", int64_t{23});
  for (onnx::NodeProto* node : {weight, back}) Set(node, "output_dtype", int64_t{onnx::TensorProto::FLOAT});
  m.Node("Transpose", {"wide"}, {"turned"});
  m.Node("MatMul", {"rounded", "turned"}, {"y"});
  m.Output("rounded");
  m.Output("y");
  Numbers x(64), expected(64);
  x[0] = 0.7f, x[1] = 5, x[32] = -9, x[33] = 1.1f;
  expected[0] = 0.75f, expected[1] = 3, expected[32] = -8, expected[33] = 2;
  const auto got = Evaluate(m, {Data(DType::kF32, {1, 64}, x)});
  ExpectNear(got[0], expected);
  Numbers y(32, 2 * (-6 * 0.75f + 3) + 0.25f * (-6 * -8 + 2));
  EXPECT_EQ(got[1][9], std::ldexp(-6 * 0.75f + 3 - 6 * -8 + 2, -95));
  y[9] = got[1][9];
  ExpectNear(got[1], y);
  EXPECT_TRUE(HasPacked(m));
}

TEST(PowersOfTwo, WhatDoesNotScaleIsRefused) {
  const auto says = [](const std::string& op, const std::vector<std::string>& inputs,
                       const std::string& attribute, int64_t value,
                       std::initializer_list<const char*> parts) {
    ModelMaker m(25);
    m.Input("x", {2, 3});
    Bytes(m, "powers", {2, 3}, std::string(6, '\x7f'), 24);
    Bytes(m, "scale", {}, std::string(1, '\x7f'), 24);
    Bytes(m, "q", {2, 3}, std::string(6, '\1'), onnx::TensorProto::INT8);
    onnx::NodeProto* node = m.Node(op, inputs, {"y"});
    if (!attribute.empty()) Set(node, attribute.c_str(), value);
    m.Output("y");
    const Status status = ImportModel(m.Make(), {}, nullptr).status();
    EXPECT_TRUE(Says(status, {(op + " \"" + op + "_y\"").c_str()}));
    EXPECT_TRUE(Says(status, parts));
  };
  says("Add", {"powers", "powers"}, "", 0, {"input 0", "FLOAT8E8M0", "Cast"});
  says("DequantizeLinear", {"q", "scale"}, "", 0, {"FLOAT8E8M0", "output_dtype"});
  says("DequantizeLinear", {"powers", "scale"}, "output_dtype", 1, {"input 0", "FLOAT8E8M0", "Cast"});
  says("QuantizeLinear", {"x", "scale"}, "output_dtype", 24, {"quantisation to FLOAT8E8M0", "Cast"});
}

}  // namespace
}  // namespace rondo
