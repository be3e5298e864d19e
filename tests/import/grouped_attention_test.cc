// GroupQueryAttention of com.microsoft, compared with the same computed by plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/import/import.h"
#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

// One query head of `size` features over keys [from, to) of a cache; `sink` is an extra score without a
// value.
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

// A step of one token over a cache of 6 positions, of which 3 are filled. Two heads of 8 share keys and
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

}  // namespace
}  // namespace rondo
