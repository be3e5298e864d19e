// Attention of com.microsoft that rotates queries and keys itself (do_rotary), compared with RotaryEmbedding
// between the matmul and attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

constexpr int64_t kBatch = 2, kHeads = 2, kSize = 8, kInput = 6, kWidth = kHeads * kSize, kMost = 9;

struct Turned {
  int64_t rows = 1, past = 0, features = kSize;
  bool shared = false;  // past and present are one buffer of kMost positions
};

void Inputs(ModelMaker& m, const Turned& t) {
  m.Input("x", {kBatch, t.rows, kInput});
  m.Floats("w", {kInput, 3 * kWidth}, Random(kInput * 3 * kWidth, 4));
  m.Floats("b", {3 * kWidth}, Random(3 * kWidth, 5));
}

// Adds the operator itself.
void One(ModelMaker& m, const Turned& t) {
  Inputs(m, t);
  if (t.past > 0) m.Input("past", {2, kBatch, kHeads, t.shared ? kMost : t.past, kSize});
  if (t.shared) m.Input("held", {1}, onnx::TensorProto::INT32);
  onnx::NodeProto* node =
      Microsoft(m, "Attention", {"x", "w", "b", "", t.past > 0 ? "past" : "", "", t.shared ? "held" : ""},
                {"y", "present"});
  Set(node, "num_heads", kHeads);
  Set(node, "do_rotary", int64_t{1});
  Set(node, "unidirectional", int64_t{1});
  if (t.features != kSize) Set(node, "rotary_embedding_dim", t.features);
  if (t.shared) Set(node, "past_present_share_buffer", int64_t{1});
  m.Output("y");
  m.Output("present");
}

// Adds the same as separate operators, over a growing past split into keys and values.
void Pieces(ModelMaker& m, const Turned& t) {
  Inputs(m, t);
  std::vector<float> cosines, sines;
  for (int64_t p = 0; p < kMost; ++p) {
    for (int64_t i = 0; i < t.features / 2; ++i) {
      const double angle = static_cast<double>(p) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(t.features));
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  m.Floats("cosines", {kMost, t.features / 2}, cosines);
  m.Floats("sines", {kMost, t.features / 2}, sines);
  m.Ints("first", {t.past});
  m.Node("MatMul", {"x", "w"}, {"product"});
  m.Node("Add", {"product", "b"}, {"qkv"});
  m.Ints("one", {1}), m.Ints("two", {2});
  const char* parts[] = {"q", "k", "v"};
  for (int64_t i = 0; i < 3; ++i) {
    const std::string part = parts[i];
    m.Ints(part + "_from", {i * kWidth});
    m.Ints(part + "_to", {(i + 1) * kWidth});
    m.Node("Slice", {"qkv", part + "_from", part + "_to", "two"}, {part});
    if (i == 2) continue;
    onnx::NodeProto* turn =
        Microsoft(m, "RotaryEmbedding", {part, "first", "cosines", "sines"}, {part + "_turned"});
    Set(turn, "num_heads", kHeads);
    if (t.features != kSize) Set(turn, "rotary_embedding_dim", t.features);
  }
  std::vector<std::string> in = {"q_turned", "k_turned", "v"};
  if (t.past > 0) {
    for (const char* name : {"past_k", "past_v"}) m.Input(name, {kBatch, kHeads, t.past, kSize});
    in.insert(in.end(), {"", "", "", "past_k", "past_v"});
  }
  onnx::NodeProto* node = Microsoft(m, "MultiHeadAttention", in, {"y", "present_k", "present_v"});
  Set(node, "num_heads", kHeads);
  Set(node, "unidirectional", int64_t{1});
  for (const char* name : {"y", "present_k", "present_v"}) m.Output(name);
}

// One half of a past: `held` filled positions of `length`, followed by large numbers.
Numbers Half(uint32_t seed, int64_t held, int64_t length) {
  Numbers half;
  for (uint32_t i = 0; i < kBatch * kHeads; ++i) {
    const Numbers rows = Random(static_cast<size_t>(held * kSize), seed + i);
    half.insert(half.end(), rows.begin(), rows.end());
    half.insert(half.end(), static_cast<size_t>((length - held) * kSize), 1e3f);
  }
  return half;
}

TEST(RotaryAttentionTest, TurnsQueriesAndKeysByWhereTheyStand) {
  for (const Turned& t :
       {Turned{.rows = 3}, Turned{.past = 4}, Turned{.rows = 3, .past = 4}, Turned{.rows = 4, .past = 4},
        Turned{.rows = 2, .past = 3, .features = 4}, Turned{.rows = 2, .past = 5, .shared = true}}) {
    SCOPED_TRACE(std::to_string(t.rows) + " behind " + std::to_string(t.past));
    ModelMaker one, pieces;
    One(one, t);
    Pieces(pieces, t);
    const int64_t length = t.shared ? kMost : t.past;
    const auto x =
        Data(DType::kF32, {kBatch, t.rows, kInput}, Random(static_cast<size_t>(kBatch * t.rows * kInput), 1));
    ir::Values of_one = {x}, of_pieces = {x};
    if (t.past > 0) {
      Numbers both;
      for (const uint32_t seed : {10, 20}) {
        const Numbers half = Half(seed, t.past, length);
        both.insert(both.end(), half.begin(), half.end());
        of_pieces.push_back(Data(DType::kF32, {kBatch, kHeads, t.past, kSize}, Half(seed, t.past, t.past)));
      }
      of_one.push_back(Data(DType::kF32, {2, kBatch, kHeads, length, kSize}, both));
    }
    if (t.shared)
      of_one.push_back(Data(DType::kI32, {1}, std::vector<int32_t>{static_cast<int32_t>(t.past)}));
    const std::vector<Numbers> got = Evaluate(one, of_one), expected = Evaluate(pieces, of_pieces);
    ExpectNear(got[0], expected[0]);
    const int64_t total = t.past + t.rows, room = t.shared ? kMost : total, lines = kBatch * kHeads;
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t i = 0; i < lines * total * kSize; ++i) {
        const int64_t line = i / (total * kSize), at = i % (total * kSize);
        ASSERT_NEAR(got[1][static_cast<size_t>((half * lines + line) * room * kSize + at)],
                    expected[static_cast<size_t>(1 + half)][static_cast<size_t>(i)], 1e-5);
      }
    }
  }
}

TEST(RotaryAttentionTest, FeaturesThatAHeadDoesNotHaveAreRefused) {
  for (const int64_t features : {3, 16, -2}) {
    ModelMaker m;
    One(m, {.features = features});
    const std::string says = "do_rotary of " + std::to_string(features);
    EXPECT_TRUE(
        Says(ImportModel(m.Make(), {}, nullptr).status(), {"Attention_y", says.c_str(), "heads of 8"}));
  }
}

// A growing past becomes a cache of a fixed length: rows are rotated by their positions in each run.
TEST(RotaryAttentionTest, RowsOfAFixedCacheStandWhereItEnds) {
  ModelMaker m;
  DescribePort(m.graph()->add_input(), "x", onnx::TensorProto::FLOAT,
               {std::to_string(kBatch), "rows", std::to_string(kInput)});
  const auto port = [&](onnx::ValueInfoProto* info, const std::string& name, const std::string& length) {
    DescribePort(info, name, onnx::TensorProto::FLOAT,
                 {"2", std::to_string(kBatch), std::to_string(kHeads), length, std::to_string(kSize)});
  };
  port(m.graph()->add_input(), "past_0", "past_sequence_length");
  m.Floats("w", {kInput, 3 * kWidth}, Random(kInput * 3 * kWidth, 4));
  m.Floats("b", {3 * kWidth}, Random(3 * kWidth, 5));
  onnx::NodeProto* node = Microsoft(m, "Attention", {"x", "w", "b", "", "past_0"}, {"y", "present_0"});
  Set(node, "num_heads", kHeads);
  Set(node, "do_rotary", int64_t{1});
  Set(node, "unidirectional", int64_t{1});
  m.Output("y");
  port(m.graph()->add_output(), "present_0", "past_sequence_length + rows");
  for (const int64_t rows : {1, 2}) {
    ImportOptions options;
    options.symbols["rows"] = rows;
    FixedCaches caches;
    const auto fixed = ImportWithFixedCaches(m.Make(), options, kMost, {}, nullptr, &caches);
    ASSERT_TRUE(fixed.ok()) << fixed.status().message();
    const auto x =
        Data(DType::kF32, {kBatch, rows, kInput}, Random(static_cast<size_t>(kBatch * rows * kInput), 1));
    for (int64_t past = 1; past + rows <= kMost; ++past) {
      options.symbols["past_sequence_length"] = past;
      const auto growing = ImportModel(m.Make(), options, nullptr);
      ASSERT_TRUE(growing.ok()) << growing.status().message();
      const auto cache = [&](int64_t length) {
        Numbers both = Half(10, past, length);
        const Numbers values = Half(20, past, length);
        both.insert(both.end(), values.begin(), values.end());
        return Data(DType::kF32, {2, kBatch, kHeads, length, kSize}, both);
      };
      const auto expected = ir::EvaluateGraph(*growing, {x, cache(past)});
      const auto got =
          ir::EvaluateGraph(*fixed, {x, cache(kMost), Data(DType::kI64, {1}, std::vector<int64_t>{past})});
      ASSERT_TRUE(expected.ok()) << expected.status().message();
      ASSERT_TRUE(got.ok()) << got.status().message();
      const auto of = [](const auto& value, int64_t i) {
        float number;
        std::memcpy(&number, value->bytes.data() + 4 * i, 4);
        return number;
      };
      const int64_t line = (past + rows) * kSize;  // the new rows of rotated keys, and of values
      for (int64_t i = 0; i < 2 * kBatch * kHeads * line; ++i) {
        ASSERT_NEAR(of((*got)[1], i / line * kMost * kSize + i % line), of((*expected)[1], i), 1e-5)
            << "past " << past;
      }
    }
  }
}

}  // namespace
}  // namespace rondo
