// Operators of u64 on both sides of 2^63: targets compute them in i64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

using Words = std::vector<uint64_t>;

constexpr uint64_t kHalf = uint64_t{1} << 63, kMost = ~uint64_t{0};

// Every pair of numbers of interest, none of them 0.
std::pair<Words, Words> Pairs() {
  const uint64_t numbers[] = {1,         2,         3,         7,         (uint64_t{1} << 53) + 1,
                              kHalf - 1, kHalf,     kHalf + 1, kMost / 3, kHalf + (uint64_t{1} << 39) + 1,
                              kMost - 7, kMost - 1, kMost};
  std::pair<Words, Words> pairs;
  for (uint64_t a : numbers) {
    for (uint64_t b : numbers) {
      pairs.first.push_back(a);
      pairs.second.push_back(b);
    }
  }
  return pairs;
}

void Constant(ModelMaker& m, const std::string& name, const Words& words) {
  Bytes(m, name, {static_cast<int64_t>(words.size())},
        std::string(reinterpret_cast<const char*>(words.data()), words.size() * 8),
        onnx::TensorProto::UINT64);
}

// The bytes of `y`, from inputs a and b and from constants.
void ExpectBoth(const std::string& what, const Words& a, const Words& b, const std::string& expected,
                const std::function<void(ModelMaker&)>& add) {
  const Shape shape = {static_cast<int64_t>(a.size())};
  for (const bool constant : {false, true}) {
    SCOPED_TRACE(what + (constant ? " of constants" : " of inputs"));
    ModelMaker m(18);
    for (const auto& [name, words] : {std::pair("a", a), std::pair("b", b)}) {
      if (constant) {
        Constant(m, name, words);
      } else {
        m.Input(name, {shape[0]}, onnx::TensorProto::UINT64);
      }
    }
    add(m);
    m.Output("y");
    auto graph = ImportModel(m.Make(), {}, nullptr);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    ir::Values inputs;
    if (!constant) inputs = {Data(DType::kU64, shape, a), Data(DType::kU64, shape, b)};
    const auto y = ir::EvaluateGraph(*graph, inputs);
    ASSERT_TRUE(y.ok()) << y.status().message();
    const auto& bytes = (*y)[0]->bytes;
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), expected);
  }
}

// `of` for each pair of numbers; R: the type of results.
template <typename R>
void ExpectEach(const std::string& op, const std::function<R(uint64_t, uint64_t)>& of,
                const std::vector<std::string>& inputs = {"a", "b"}, int64_t to = 0) {
  const auto [a, b] = Pairs();
  std::string expected;
  for (size_t i = 0; i < a.size(); ++i) {
    const R y = of(a[i], b[i]);
    expected.append(reinterpret_cast<const char*>(&y), sizeof(y));
  }
  ExpectBoth(op, a, b, expected, [&](ModelMaker& m) {
    onnx::NodeProto* node = m.Node(op, inputs, {"y"});
    if (to != 0) Set(node, "to", to);
  });
}

using Word = uint64_t;

TEST(Unsigned, PairsAreComparedAndDividedWithoutSign) {
  ExpectEach<bool>("Less", [](Word a, Word b) { return a < b; });
  ExpectEach<bool>("Greater", [](Word a, Word b) { return a > b; });
  ExpectEach<bool>("LessOrEqual", [](Word a, Word b) { return a <= b; });
  ExpectEach<bool>("GreaterOrEqual", [](Word a, Word b) { return a >= b; });
  ExpectEach<Word>("Max", [](Word a, Word b) { return std::max(a, b); });
  ExpectEach<Word>("Min", [](Word a, Word b) { return std::min(a, b); });
  ExpectEach<Word>("Div", [](Word a, Word b) { return a / b; });
  ExpectEach<Word>("Mod", [](Word a, Word b) { return a % b; });
  ExpectEach<Word>("Pow", [](Word a, Word b) {
    Word power = 1;
    for (; b != 0; b >>= 1, a *= a) power *= (b & 1) != 0 ? a : 1;
    return power;
  });
}

TEST(Unsigned, NumbersHaveNoSignAndAreRoundedOnceToFloats) {
  const std::vector<std::string> a = {"a"};
  ExpectEach<Word>(
      "Abs", [](Word x, Word) { return x; }, a);
  ExpectEach<Word>(
      "Sign", [](Word, Word) { return Word{1}; }, a);
  ExpectEach<float>(
      "Cast", [](Word x, Word) { return static_cast<float>(x); }, a, onnx::TensorProto::FLOAT);
  ExpectEach<double>(
      "Cast", [](Word x, Word) { return static_cast<double>(x); }, a, onnx::TensorProto::DOUBLE);
}

TEST(Unsigned, ExtremesOfRowsAndOfPlacesHaveNoSign) {
  const Words numbers = {kHalf - 1, 3, kMost - 1, kHalf, 5}, start(5, kHalf);
  const auto expect = [&](Word expected, const std::function<void(ModelMaker&)>& add) {
    ExpectBoth(std::to_string(expected), numbers, start,
               std::string(reinterpret_cast<const char*>(&expected), sizeof(expected)), add);
  };
  for (const auto& [op, expected] : {std::pair("ReduceMax", kMost - 1), std::pair("ReduceMin", Word{3}),
                                     std::pair("ArgMax", Word{2}), std::pair("ArgMin", Word{1})})
    expect(expected, [&](ModelMaker& m) { Set(m.Node(op, {"a"}, {"y"}), "keepdims", int64_t{0}); });
  // All numbers are scattered to the first place.
  for (const auto& [reduction, expected] : {std::pair("max", kMost - 1), std::pair("min", Word{3})}) {
    expect(expected, [&](ModelMaker& m) {
      m.Ints("places", {0, 0, 0, 0, 0});
      m.Ints("first", {0});
      Set(m.Node("ScatterElements", {"b", "places", "a"}, {"all"}), "reduction", std::string(reduction));
      m.Node("Gather", {"all", "first"}, {"y"});
    });
  }
}

}  // namespace
}  // namespace rondo
