// The scores that attention's operators give as outputs (qk_matmul_output, output_qk).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

constexpr int64_t kHeads = 2, kQueries = 3, kKeys = 4, kSize = 8;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The scores of heads that share their keys: [heads, queries, keys].
Numbers Products(const Numbers& q, const Numbers& k, int64_t keys) {
  Numbers x;
  for (int64_t row = 0; row < kHeads * kQueries; ++row) {
    for (int64_t key = 0; key < keys; ++key) {
      float sum = 0;
      for (int64_t d = 0; d < kSize; ++d)
        sum += q[static_cast<size_t>(row * kSize + d)] * k[static_cast<size_t>(key * kSize + d)];
      x.push_back(sum / std::sqrt(static_cast<float>(kSize)));
    }
  }
  return x;
}

Numbers Softmax(const Numbers& x, int64_t keys) {
  Numbers y;
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(keys)) {
    float sum = 0;
    for (int64_t key = 0; key < keys; ++key) sum += std::exp(x[row + static_cast<size_t>(key)]);
    for (int64_t key = 0; key < keys; ++key)
      y.push_back(sum == 0 ? 0 : std::exp(x[row + static_cast<size_t>(key)]) / sum);
  }
  return y;
}

void ExpectSame(const Numbers& got, const Numbers& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(expected[i])) {
      EXPECT_EQ(got[i], expected[i]) << "at " << i;
    } else {
      EXPECT_NEAR(got[i], expected[i], 1e-5) << "at " << i;
    }
  }
}

// Which keys each query sees. The first query sees none, so its weights are 0.
const std::vector<uint8_t> kSeen = {0, 0, 0, 0, 1, 0, 1, 0, 1, 1, 1, 1};

TEST(ScoresTest, AttentionShowsThemAtEveryStage) {
  constexpr float kCap = 1.5f;
  const Numbers q = Random(kHeads * kQueries * kSize, 1), k = Random(kKeys * kSize, 2),
                v = Random(kKeys * kSize, 3);
  Numbers expected = Products(q, k, kKeys);
  for (int64_t mode = 0; mode < 4; ++mode) {
    SCOPED_TRACE(mode);
    ModelMaker m(24);
    m.Input("q", {1, kHeads, kQueries, kSize});
    m.Input("k", {1, 1, kKeys, kSize});
    m.Input("v", {1, 1, kKeys, kSize});
    m.Input("seen", {kQueries, kKeys}, onnx::TensorProto::BOOL);
    onnx::NodeProto* node = m.Node("Attention", {"q", "k", "v", "seen"}, {"y", "", "", "scores"});
    Set(node, "qk_matmul_output_mode", mode);
    Set(node, "softcap", kCap);
    m.Output("scores");
    if (mode == 1) {
      for (float& x : expected) x = kCap * std::tanh(x / kCap);
    } else if (mode == 2) {
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] = kSeen[i % kSeen.size()] != 0 ? expected[i] : -kInfinity;
    } else if (mode == 3) {
      expected = Softmax(expected, kKeys);
    }
    const std::vector<Numbers> got = Evaluate(
        m, {Data(DType::kF32, {1, kHeads, kQueries, kSize}, q), Data(DType::kF32, {1, 1, kKeys, kSize}, k),
            Data(DType::kF32, {1, 1, kKeys, kSize}, v), Data(DType::kBool, {kQueries, kKeys}, kSeen)});
    ExpectSame(got[0], expected);
  }
}

TEST(ScoresTest, AnotherStageIsRefused) {
  ModelMaker m(24);
  for (const char* name : {"q", "k", "v"}) m.Input(name, {1, 1, kKeys, kSize});
  Set(m.Node("Attention", {"q", "k", "v"}, {"y", "", "", "scores"}), "qk_matmul_output_mode", int64_t{4});
  m.Output("scores");
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"qk_matmul_output_mode of 4", "0 to 3"}));
}

// With a window of two, scores outside it are 0.
TEST(ScoresTest, GroupQueryAttentionShowsThoseThatAreSeen) {
  const Numbers packed = Random(kQueries * (kHeads + 2) * kSize, 4);
  Numbers q(static_cast<size_t>(kHeads * kQueries * kSize)), k(static_cast<size_t>(kQueries * kSize));
  for (int64_t row = 0; row < kQueries; ++row) {
    const float* of_row = packed.data() + row * (kHeads + 2) * kSize;
    for (int64_t head = 0; head < kHeads; ++head)
      std::copy_n(of_row + head * kSize, kSize, q.begin() + (head * kQueries + row) * kSize);
    std::copy_n(of_row + kHeads * kSize, kSize, k.begin() + row * kSize);
  }
  Numbers scores = Products(q, k, kQueries), masked = scores;
  for (int64_t i = 0; i < kHeads * kQueries * kQueries; ++i) {
    const int64_t query = i / kQueries % kQueries, key = i % kQueries;
    if (key <= query && query < key + 2) continue;
    scores[static_cast<size_t>(i)] = 0;
    masked[static_cast<size_t>(i)] = -kInfinity;
  }
  for (const int64_t stage : {1, 2}) {
    ModelMaker m;
    m.Input("qkv", {1, kQueries, (kHeads + 2) * kSize});
    Bytes(m, "last", {1}, std::string("\2\0\0\0", 4), onnx::TensorProto::INT32);
    Bytes(m, "total", {1}, std::string("\3\0\0\0", 4), onnx::TensorProto::INT32);
    onnx::NodeProto* node = Microsoft(m, "GroupQueryAttention", {"qkv", "", "", "", "", "last", "total"},
                                      {"y", "", "", "scores"});
    Set(node, "num_heads", kHeads);
    Set(node, "kv_num_heads", int64_t{1});
    Set(node, "local_window_size", int64_t{2});
    Set(node, "qk_output", stage);
    m.Output("scores");
    const std::vector<Numbers> got =
        Evaluate(m, {Data(DType::kF32, {1, kQueries, (kHeads + 2) * kSize}, packed)});
    ExpectSame(got[0], stage == 1 ? scores : Softmax(masked, kQueries));
  }
}

// A cache of 6 positions, of which 4 are filled after the run. The output has the model's number of columns,
// or all columns, with zeros.
TEST(ScoresTest, GroupQueryAttentionShowsThoseOfThePositionsThatThereAre) {
  constexpr int64_t kCache = 6, kThere = 4;
  const Numbers q = Random(kHeads * kSize, 8), rows = Random(kCache * kSize, 9);
  Numbers keys(rows.begin(), rows.begin() + kThere * kSize);
  const Numbers fresh = Random(kSize, 10);
  std::copy(fresh.begin(), fresh.end(), keys.end() - kSize);
  for (const bool told : {true, false}) {
    ModelMaker m;
    m.Input("q", {1, 1, kHeads * kSize});
    m.Input("k", {1, 1, kSize});
    m.Input("cache", {1, 1, kCache, kSize});
    Bytes(m, "last", {1}, std::string("\3\0\0\0", 4), onnx::TensorProto::INT32);
    if (told) Bytes(m, "total", {1}, std::string("\4\0\0\0", 4), onnx::TensorProto::INT32);
    if (!told) m.Input("total", {1}, onnx::TensorProto::INT32);
    onnx::NodeProto* node =
        Microsoft(m, "GroupQueryAttention", {"q", "k", "k", "cache", "cache", "last", "total"},
                  {"y", "", "", "scores"});
    Set(node, "num_heads", kHeads);
    Set(node, "kv_num_heads", int64_t{1});
    Set(node, "qk_output", int64_t{1});
    m.Output("scores");
    ImportReport report;
    auto graph = ImportModel(m.Make(), {}, &report);
    ASSERT_TRUE(graph.ok()) << graph.status().message();
    const int64_t columns = told ? kThere : kCache;
    EXPECT_EQ(graph->node(graph->outputs[0].node).shape, Shape({1, kHeads, 1, columns}));
    ASSERT_EQ(report.remarks.size(), told ? 0u : 1u);
    if (!told) {
      EXPECT_NE(report.remarks[0].find("has 6 columns, one for each position of the cache"),
                std::string::npos);
    }
    ir::Values values = {Data(DType::kF32, {1, 1, kHeads * kSize}, q),
                         Data(DType::kF32, {1, 1, kSize}, fresh),
                         Data(DType::kF32, {1, 1, kCache, kSize}, rows)};
    if (!told) values.push_back(Data<int32_t>(DType::kI32, {1}, {4}));
    Numbers expected;
    for (int64_t head = 0; head < kHeads; ++head) {
      for (int64_t key = 0; key < columns; ++key) {
        float sum = 0;
        for (int64_t d = 0; d < kSize && key < kThere; ++d)
          sum += q[static_cast<size_t>(head * kSize + d)] * keys[static_cast<size_t>(key * kSize + d)];
        expected.push_back(sum / std::sqrt(static_cast<float>(kSize)));
      }
    }
    ExpectSame(Evaluate(m, values)[0], expected);
  }
}

TEST(ScoresTest, MultiHeadAttentionShowsThemWithTheirBias) {
  const Numbers q = Random(kQueries * kHeads * kSize, 5), one = Random(kKeys * kSize, 6),
                bias = Random(kQueries * kKeys, 7);
  Numbers heads(q.size()), k;
  for (int64_t row = 0; row < kQueries; ++row) {
    for (int64_t head = 0; head < kHeads; ++head)
      std::copy_n(q.begin() + (row * kHeads + head) * kSize, kSize,
                  heads.begin() + (head * kQueries + row) * kSize);
  }
  for (int64_t key = 0; key < kKeys; ++key) {
    for (int64_t head = 0; head < kHeads; ++head)
      k.insert(k.end(), one.begin() + key * kSize, one.begin() + (key + 1) * kSize);
  }
  Numbers expected = Products(heads, one, kKeys);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % bias.size()];
  ModelMaker m;
  m.Input("q", {1, kQueries, kHeads * kSize});
  m.Input("k", {1, kKeys, kHeads * kSize});
  m.Input("bias", {1, 1, kQueries, kKeys});
  Set(Microsoft(m, "MultiHeadAttention", {"q", "k", "k", "", "", "bias"}, {"y", "", "", "scores"}),
      "num_heads", kHeads);
  m.Output("scores");
  const std::vector<Numbers> got = Evaluate(m, {Data(DType::kF32, {1, kQueries, kHeads * kSize}, q),
                                                Data(DType::kF32, {1, kKeys, kHeads * kSize}, k),
                                                Data(DType::kF32, {1, 1, kQueries, kKeys}, bias)});
  ExpectSame(got[0], expected);
}

}  // namespace
}  // namespace rondo
