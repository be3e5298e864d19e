// DecoderMaskedMultiHeadAttention: a step over a cache of a fixed length gives the results of
// MultiHeadAttention over the filled part of the cache.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/import/evaluated_model.h"

namespace rondo {
namespace {

constexpr int64_t kHeads = 2, kSize = 4, kMost = 6, kWidth = kHeads * kSize;

struct Step {
  bool mask = false, bias = false, scores_bias = false;
};

void Inputs(ModelMaker& m, int64_t cache, int64_t keys, const Step& step) {
  for (const char* name : {"q", "k", "v"}) m.Input(name, {1, 1, kWidth});
  for (const char* name : {"past_k", "past_v"}) m.Input(name, {1, kHeads, cache, kSize});
  if (step.mask) m.Input("mask", {1, keys}, onnx::TensorProto::INT32);
  if (step.bias) m.Floats("bias", {3 * kWidth}, Random(3 * kWidth, 5));
  if (step.scores_bias)
    m.Floats("added", {1, kHeads, 1, keys}, Random(static_cast<size_t>(kHeads * keys), 6));
}

// The rows [heads, length, size] of a cache of which the first `held` are filled; the rest are large numbers.
Numbers Cache(uint32_t seed, int64_t held, int64_t length) {
  Numbers cache;
  for (int64_t head = 0; head < kHeads; ++head) {
    const Numbers rows = Random(static_cast<size_t>(held * kSize), seed + static_cast<uint32_t>(head));
    cache.insert(cache.end(), rows.begin(), rows.end());
    cache.insert(cache.end(), static_cast<size_t>((length - held) * kSize), 1e3f);
  }
  return cache;
}

ir::Values Given(int64_t held, int64_t length, const Step& step) {
  ir::Values values;
  for (uint32_t i = 1; i < 4; ++i) values.push_back(Data(DType::kF32, {1, 1, kWidth}, Random(kWidth, i)));
  for (uint32_t i : {10, 20})
    values.push_back(Data(DType::kF32, {1, kHeads, length, kSize}, Cache(i, held, length)));
  std::vector<int32_t> seen(static_cast<size_t>(held + 1), 1);
  seen[0] = 0;
  if (step.mask) values.push_back(Data(DType::kI32, {1, held + 1}, seen));
  return values;
}

TEST(DecoderMaskedMultiHeadAttentionTest, IsAttentionOverWhatTheCacheHolds) {
  for (const Step step : {Step{}, Step{.mask = true}, Step{.bias = true}, Step{.scores_bias = true},
                          Step{.mask = true, .bias = true, .scores_bias = true}}) {
    for (const int64_t held : {1, 3, 5}) {
      ModelMaker fixed, grown;
      Inputs(fixed, kMost, held + 1, step);
      Inputs(grown, held, held + 1, step);
      fixed.Ints("held", {held});
      const std::string mask = step.mask ? "mask" : "", bias = step.bias ? "bias" : "",
                        added = step.scores_bias ? "added" : "";
      onnx::NodeProto* node = Microsoft(
          fixed, "DecoderMaskedMultiHeadAttention",
          {"q", "k", "v", mask, added, "past_k", "past_v", "held", "", "", bias}, {"y", "k_out", "v_out"});
      Set(node, "num_heads", kHeads);
      Set(node, "past_present_share_buffer", int64_t{1});
      Set(Microsoft(grown, "MultiHeadAttention", {"q", "k", "v", bias, mask, added, "past_k", "past_v"},
                    {"y", "k_out", "v_out"}),
          "num_heads", kHeads);
      for (ModelMaker* m : {&fixed, &grown}) {
        m->Output("y");
        m->Output("k_out");
      }
      const std::vector<Numbers> got = Evaluate(fixed, Given(held, kMost, step)),
                                 expected = Evaluate(grown, Given(held, held, step));
      ExpectNear(got[0], expected[0]);
      for (int64_t head = 0; head < kHeads; ++head) {
        for (int64_t i = 0; i < (held + 1) * kSize; ++i) {
          EXPECT_EQ(got[1][static_cast<size_t>(head * kMost * kSize + i)],
                    expected[1][static_cast<size_t>(head * (held + 1) * kSize + i)]);
        }
      }
    }
  }
}

TEST(DecoderMaskedMultiHeadAttentionTest, WhatItLacksIsRefusedWithWhatToDo) {
  const struct {
    std::vector<std::string> inputs;
    int64_t shares;
    const char* says;
  } cases[] = {
      {{"q", "k", "v", "", "", "past_k", "past_v", "held", "", "beams"}, 1, "export the model without beams"},
      {{"q", "k", "v", "", "", "past_k", "past_v"}, 1, "needs the input past_sequence_length"},
      {{"q", "k", "v"}, 0, "past keys and values are missing"}};
  for (const auto& one : cases) {
    ModelMaker m;
    Inputs(m, kMost, 2, {});
    m.Ints("held", {1});
    m.Ints("beams", {0});
    onnx::NodeProto* node = Microsoft(m, "DecoderMaskedMultiHeadAttention", one.inputs, {"y"});
    Set(node, "num_heads", kHeads);
    Set(node, "past_present_share_buffer", one.shares);
    m.Output("y");
    EXPECT_TRUE(
        Says(ImportModel(m.Make(), {}, nullptr).status(), {"DecoderMaskedMultiHeadAttention", one.says}));
  }
}

}  // namespace
}  // namespace rondo
