// GatedDeltaNet and SparseAttention of com.microsoft against plain loops and a window.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

constexpr size_t kKey = 2, kValue = 3, kHeads = 2, kPositions = 3;

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// Applies positions [from, to) of packed rows to `state` [heads, value, key], and computes what they read
// from it.
struct Text {
  const Numbers &rows, &gate, &beta, &rates, &bias;
  Numbers y = {}, decays = {}, keys = {}, deltas = {};

  void Run(size_t from, size_t to, float* state) {
    for (size_t t = from; t < to; ++t) {
      const float* row = rows.data() + t * (2 * kKey + kHeads * kValue);
      const float q_size = std::hypot(row[0], row[1]), k_size = std::hypot(row[2], row[3]);
      const float q[] = {row[0] / q_size, row[1] / q_size}, k[] = {row[2] / k_size, row[3] / k_size};
      keys.insert(keys.end(), k, k + kKey);
      for (size_t h = 0; h < kHeads; ++h) {
        const float decay =
            std::exp(-std::exp(rates[h]) * std::log1p(std::exp(gate[t * kHeads + h] + bias[h])));
        decays.push_back(decay);
        for (size_t v = 0; v < kValue; ++v) {
          float* s = state + (h * kValue + v) * kKey;
          for (size_t i = 0; i < kKey; ++i) s[i] *= decay;
          const float known = s[0] * k[0] + s[1] * k[1];
          const float add = Sigmoid(beta[t * kHeads + h]) * (row[2 * kKey + h * kValue + v] - known);
          deltas.push_back(add);
          for (size_t i = 0; i < kKey; ++i) s[i] += k[i] * add;
          y.push_back(0.5f * (s[0] * q[0] + s[1] * q[1]));
        }
      }
    }
  }
};

void ExpectNear(const Numbers& got, const Numbers& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << "at " << i;
}

onnx::NodeProto* DeltaNode(ModelMaker& m, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs) {
  onnx::NodeProto* node = Microsoft(m, "GatedDeltaNet", inputs, outputs);
  Set(node, "gate_activation", std::string("softplus"));
  Set(node, "beta_activation", std::string("sigmoid"));
  Set(node, "qk_l2_norm", int64_t{1});
  Set(node, "scale", 0.5f);
  return node;
}

TEST(GatedDeltaNetTest, TextsOfDifferentLengthsHaveStatesOfTheirOwn) {
  constexpr size_t kColumns = 2 * kKey + kHeads * kValue, kState = kHeads * kValue * kKey;
  const Numbers rows = Random(kPositions * kColumns, 1), gate = Random(kPositions * kHeads, 2),
                beta = Random(kPositions * kHeads, 3), states = Random(2 * kState, 4),
                rates = Random(kHeads, 5), bias = Random(kHeads, 6);
  for (const int32_t second : {1, 2}) {
    for (const int32_t end : {3, 2}) {  // rows may follow that belong to no text
      ModelMaker m;
      m.Input("rows", {kPositions, kColumns});
      m.Input("ends", {3}, onnx::TensorProto::INT32);
      m.Input("gate", {kPositions, kHeads});
      m.Input("beta", {kPositions, kHeads});
      m.Input("states", {2, kHeads, kValue, kKey});
      m.Floats("rates", {kHeads}, rates);
      m.Floats("bias", {kHeads}, bias);
      DeltaNode(m, {"rows", "", "", "ends", "gate", "beta", "states", "rates", "bias"}, {"y", "after"});
      m.Output("y");
      m.Output("after");
      const auto got = Evaluate(
          m,
          {Data(DType::kF32, {kPositions, kColumns}, rows), Data<int32_t>(DType::kI32, {3}, {0, second, end}),
           Data(DType::kF32, {kPositions, kHeads}, gate), Data(DType::kF32, {kPositions, kHeads}, beta),
           Data(DType::kF32, {2, kHeads, kValue, kKey}, states)});
      Numbers after = states;
      Text text{rows, gate, beta, rates, bias};
      text.Run(0, static_cast<size_t>(second), after.data());
      text.Run(static_cast<size_t>(second), static_cast<size_t>(end), after.data() + kState);
      ExpectNear(Numbers(got[0].begin(), got[0].begin() + static_cast<int64_t>(text.y.size())), text.y);
      ExpectNear(got[1], after);
    }
  }
}

TEST(GatedDeltaNetTest, WhatTheFirstPositionsDoToTheStateIsShown) {
  constexpr size_t kState = kHeads * kValue * kKey, kCapacity = 2;
  const Numbers q = Random(kPositions * kKey, 1), k = Random(kPositions * kKey, 2),
                v = Random(kPositions * kHeads * kValue, 3), gate = Random(kPositions * kHeads, 4),
                beta = Random(kPositions * kHeads, 5), rates = Random(kHeads, 6), bias = Random(kHeads, 7);
  Numbers rows;
  for (size_t t = 0; t < kPositions; ++t) {
    rows.insert(rows.end(), q.begin() + static_cast<int64_t>(t * kKey),
                q.begin() + static_cast<int64_t>((t + 1) * kKey));
    rows.insert(rows.end(), k.begin() + static_cast<int64_t>(t * kKey),
                k.begin() + static_cast<int64_t>((t + 1) * kKey));
    rows.insert(rows.end(), v.begin() + static_cast<int64_t>(t * kHeads * kValue),
                v.begin() + static_cast<int64_t>((t + 1) * kHeads * kValue));
  }
  Numbers state(kState);
  Text text{rows, gate, beta, rates, bias};
  text.Run(0, kPositions, state.data());
  Numbers updates(text.decays.begin(), text.decays.begin() + kCapacity * kHeads);
  updates.insert(updates.end(), text.keys.begin(), text.keys.begin() + kCapacity * kKey);
  updates.insert(updates.end(), text.deltas.begin(), text.deltas.begin() + kCapacity * kHeads * kValue);
  for (const int32_t active : {1, 0}) {
    ModelMaker m;
    m.Input("q", {1, kPositions, 1, kKey});
    m.Input("k", {1, kPositions, 1, kKey});
    m.Input("v", {1, kPositions, kHeads, kValue});
    m.Input("gate", {1, kPositions, kHeads});
    m.Input("beta", {1, kPositions, kHeads});
    m.Input("count", {1}, onnx::TensorProto::INT32);
    m.Input("active", {1}, onnx::TensorProto::INT32);
    m.Floats("rates", {kHeads}, rates);
    m.Floats("bias", {kHeads}, bias);
    Set(DeltaNode(m, {"q", "k", "v", "", "gate", "beta", "", "rates", "bias", "count", "active"},
                  {"y", "", "updates"}),
        "state_update_capacity", int64_t{kCapacity});
    m.Output("y");
    m.Output("updates");
    const auto got = Evaluate(
        m,
        {Data(DType::kF32, {1, kPositions, 1, kKey}, q), Data(DType::kF32, {1, kPositions, 1, kKey}, k),
         Data(DType::kF32, {1, kPositions, kHeads, kValue}, v),
         Data(DType::kF32, {1, kPositions, kHeads}, gate), Data(DType::kF32, {1, kPositions, kHeads}, beta),
         Data<int32_t>(DType::kI32, {1}, {2}), Data<int32_t>(DType::kI32, {1}, {active})});
    ExpectNear(got[0], text.y);
    ExpectNear(got[1], active != 0 ? updates : Numbers(updates.size()));
  }
}

TEST(GatedDeltaNetTest, WhatDoesNotFitIsRefused) {
  struct Wrong {
    std::vector<std::string> inputs;
    const char* says;
  };
  for (const auto& [inputs, says] :
       std::vector<Wrong>{{{"x", "x", "x"}, "without decay"},
                          {{"x", "x"}, "come together"},
                          {{"x", "x", "x", "", "x", "x"}, "input 5 of shape [1, 2, 2, 4]"},
                          {{"rows"}, "packed queries need initial_state"},
                          {{"x", "x", "x", "", "gate", "gate", "gate"}, "4 to 4 dimensions"}}) {
    ModelMaker m;
    m.Input("x", {1, 2, 2, 4});
    m.Input("rows", {2, 8});
    m.Input("gate", {1, 2, 2});
    Microsoft(m, "GatedDeltaNet", inputs, {"y", "after"});
    m.Output("y");
    EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {says}));
  }
}

// The window holds the states after each of the last positions, and zeros if there are fewer. A run begins
// with the last state of the window that it gets.
TEST(StateWindowTest, HoldsTheStatesOfTheLastPositions) {
  constexpr int64_t kRows = 3, kSize = 4, kWindow = 4;
  const Numbers q = Random(kRows * kSize, 1), k = Random(kRows * kSize, 2), v = Random(kRows * kSize, 3),
                decay(kRows, -0.3f), beta(kRows, 0.4f), x = Random(kRows * kSize, 5);
  const Numbers past = Random(kWindow * kSize * kSize, 4), columns = Random(kWindow * kSize * 2, 6);
  for (const bool convolves : {false, true}) {
    const auto run = [&](int64_t rows, int64_t window) {
      ModelMaker m;
      const auto held = [&](int64_t last) {
        std::vector<int64_t> dims =
            convolves ? std::vector<int64_t>{1, kSize, last} : std::vector<int64_t>{1, 1, kSize, last};
        if (window > 0) dims.insert(dims.begin(), window);
        return dims;
      };
      const auto given = [&](const Numbers& all, const std::vector<int64_t>& dims) {
        int64_t count = 1;
        for (const int64_t d : dims) count *= d;
        return Data(DType::kF32, Shape(Span<const int64_t>(dims.data(), dims.size())),
                    Numbers(all.end() - count, all.end()));
      };
      const auto first = [&](const Numbers& all, int64_t each) {
        return Data(DType::kF32, Shape({1, rows, each}), Numbers(all.begin(), all.begin() + rows * each));
      };
      onnx::NodeProto* node = nullptr;
      ir::Values values;
      if (convolves) {
        m.Input("x", {1, rows, 2, kSize / 2});  // two channel axes
        m.Floats("w", {kSize, 1, 3}, Random(kSize * 3, 7));
        std::vector<int64_t> dims = held(2);
        std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
        dims.back() = 2, dims.push_back(kSize / 2);
        m.Input("past", dims);
        node = Microsoft(m, "CausalConvWithState", {"x", "w", "", "past"}, {"y", "present"});
        Set(node, "channels_last", int64_t{1});
        values = {Data(DType::kF32, {1, rows, 2, kSize / 2}, Numbers(x.begin(), x.begin() + rows * kSize)),
                  given(columns, dims)};
      } else {
        for (const char* name : {"q", "k", "v"}) m.Input(name, {1, rows, kSize});
        m.Input("past", held(kSize));
        for (const char* name : {"decay", "beta"}) m.Input(name, {1, rows, 1});
        node = Microsoft(m, "LinearAttention", {"q", "k", "v", "past", "decay", "beta"}, {"y", "present"});
        Set(node, "q_num_heads", int64_t{1});
        Set(node, "kv_num_heads", int64_t{1});
        values = {first(q, kSize),          first(k, kSize), first(v, kSize),
                  given(past, held(kSize)), first(decay, 1), first(beta, 1)};
      }
      if (window > 0) Set(node, "state_window", window);
      m.Output("y");
      m.Output("present");
      return Evaluate(m, values);
    };
    const auto all = run(kRows, kWindow);
    ExpectNear(all[0], run(kRows, 0)[0]);
    const size_t slot = all[1].size() / kWindow;
    Numbers expected(slot);
    for (int64_t rows = 1; rows <= kRows; ++rows) {
      const Numbers one = run(rows, 0)[1];
      expected.insert(expected.end(), one.begin(), one.end());
    }
    ExpectNear(all[1], expected);
    const Numbers two = run(kRows, 2)[1];
    ExpectNear(two, Numbers(expected.end() - static_cast<std::ptrdiff_t>(2 * slot), expected.end()));
  }
  ModelMaker m;
  for (const char* name : {"q", "k", "v"}) m.Input(name, {1, 1, 4});
  m.Input("past", {1, 1, 4, 4});
  onnx::NodeProto* node = Microsoft(m, "LinearAttention", {"q", "k", "v", "past"}, {"y", "present"});
  Set(node, "q_num_heads", int64_t{1});
  Set(node, "kv_num_heads", int64_t{1});
  Set(node, "update_rule", std::string("linear"));
  Set(node, "state_window", int64_t{2});
  m.Output("present");
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(),
                   {"past_state of shape [1, 1, 4, 4]", "[2, 1, 1, 4, 4] is needed"}));
  node->mutable_attribute(3)->set_i(9);
  EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {"state_window 9", "from 0 to 8"}));
}

// Blocks of 2: by one layout a query sees its own block, by another all blocks. Position 3 is the second of
// its block, so the first layout is a window of 2.
TEST(SparseAttentionTest, QueriesSeeTheBlocksOfTheirLayout) {
  constexpr int64_t kCache = 6, kSize = 8;
  const Numbers q = Random(2 * kSize, 1), row = Random(kSize, 2), cache = Random(kCache * kSize, 3);
  const auto ints = [](ModelMaker& m, const char* name, const std::vector<int64_t>& dims,
                       const std::vector<int32_t>& x) {
    std::string bytes(x.size() * 4, 0);
    std::memcpy(bytes.data(), x.data(), bytes.size());
    Bytes(m, name, dims, bytes, onnx::TensorProto::INT32);
  };
  std::vector<Numbers> seen;
  for (const int64_t window : {0, 2, -1}) {
    ModelMaker m;
    m.Input("q", {1, 1, 2 * kSize});
    m.Input("row", {1, 1, kSize});
    m.Input("cache", {1, 1, kCache, kSize});
    ints(m, "total", {1}, {4});
    ints(m, "last", {1}, {3});
    ints(m, "starts", {2, 4}, {0, 1, 2, 3, 0, 1, 3, 6});
    ints(m, "columns", {2, 6}, {0, 1, 2, -1, -1, -1, 0, 0, 1, 0, 1, 2});
    onnx::NodeProto* node =
        window == 0 ? Microsoft(m, "SparseAttention",
                                {"q", "row", "row", "cache", "cache", "starts", "columns", "total", "total"},
                                {"y", "k"})
                    : Microsoft(m, "GroupQueryAttention",
                                {"q", "row", "row", "cache", "cache", "last", "total"}, {"y", "k"});
    Set(node, "num_heads", int64_t{2});
    Set(node, "kv_num_heads", int64_t{1});
    if (window == 0) Set(node, "sparse_block_size", int64_t{2});
    if (window != 0) Set(node, "local_window_size", window);
    m.Output("y");
    m.Output("k");
    seen.push_back(
        Evaluate(m, {Data(DType::kF32, {1, 1, 2 * kSize}, q), Data(DType::kF32, {1, 1, kSize}, row),
                     Data(DType::kF32, {1, 1, kCache, kSize}, cache)})[0]);
  }
  Numbers expected(seen[1].begin(), seen[1].begin() + kSize);
  expected.insert(expected.end(), seen[2].begin() + kSize, seen[2].end());
  ExpectNear(seen[0], expected);
}

TEST(SparseAttentionTest, BlocksThatDoNotFitAreRefused) {
  struct Wrong {
    std::vector<int32_t> starts, columns;
    int64_t size;
    const char* says;
  };
  for (const Wrong& wrong :
       std::vector<Wrong>{{{0, 1, 2}, {0, 1}, 0, "blocks of 0"},
                          {{0, 1, 3}, {0, 1}, 16, "block row 1 of layout 0 is entries 1 to 3 of 2"},
                          {{0, 1, 2}, {0, 2}, 16, "block column 2 of 2"},
                          {{0, 1, 2}, {0, -1}, 16, "block column -1 of 2"},
                          {{0, 1, 2}, {0, 1}, 2, "2 blocks of 2 positions"}}) {
    ModelMaker m;
    m.Input("q", {1, 1, 16});
    m.Input("row", {1, 1, 8});
    m.Input("cache", {1, 1, 6, 8});
    m.Input("total", {1}, onnx::TensorProto::INT32);
    for (const auto& [name, x] : {std::pair{"starts", wrong.starts}, {"columns", wrong.columns}}) {
      std::string bytes(x.size() * 4, 0);
      std::memcpy(bytes.data(), x.data(), bytes.size());
      Bytes(m, name, {1, static_cast<int64_t>(x.size())}, bytes, onnx::TensorProto::INT32);
    }
    onnx::NodeProto* node =
        Microsoft(m, "SparseAttention",
                  {"q", "row", "row", "cache", "cache", "starts", "columns", "total", "total"}, {"y"});
    Set(node, "num_heads", int64_t{2});
    Set(node, "kv_num_heads", int64_t{1});
    Set(node, "sparse_block_size", wrong.size);
    m.Output("y");
    EXPECT_TRUE(Says(ImportModel(m.Make(), {}, nullptr).status(), {wrong.says}));
  }
}

}  // namespace
}  // namespace rondo
