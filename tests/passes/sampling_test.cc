// Tokens drawn from logits by a counter and a seed: only from the requested number of tokens, each with its
// probability.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "compiler/ir/philox.h"
#include "tests/ir/data.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;

// Test vectors of Random123, the authors' own library.
TEST(PhiloxTest, KnownAnswers) {
  struct Case {
    std::vector<int64_t> in;  // counter, key
    std::vector<int64_t> out;
  };
  constexpr int64_t kOnes = 0xffffffff;
  const Case cases[] = {
      {{0, 0, 0, 0, 0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{kOnes, kOnes, kOnes, kOnes, kOnes, kOnes}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Case& c : cases) {
    SmallGraph s;
    std::vector<NodeId> in;
    ir::Values values;
    for (size_t i = 0; i < c.in.size(); ++i) {
      in.push_back(s.In("x" + std::to_string(i), Shape({1}), DType::kI64));
      values.push_back(Data<int64_t>(DType::kI64, Shape({1}), {c.in[i]}));
    }
    for (NodeId word : ir::Philox(s.b, {in[0], in[1], in[2], in[3]}, {in[4], in[5]})) s.Out("y", word);
    Result<ir::Values> out = ir::EvaluateGraph(s.g, values);
    ASSERT_TRUE(out.ok());
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(scalar::Load<int64_t>(DType::kI64, (*out)[i]->bytes.data(), 0), c.out[i]);
  }
}

constexpr float kNone = -std::numeric_limits<float>::infinity();

// A program that passes logits on, with sampling appended.
struct Drawn {
  explicit Drawn(Shape shape, DType tokens = DType::kI64, int64_t length = 1, DType type = DType::kF32) {
    s.In("input_ids", Shape({shape[0], length}), tokens);
    s.Out("logits", s.b.Cast(s.b.BinaryScalar(TapeOp::kAdd, s.In("x", shape), 0), type));
    PassOptions options;
    options.sample_logits = "logits";
    Result<PassResult> result = AppendSampling(&s.g, options);
    EXPECT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(ir::Validate(s.g), "");
  }
  size_t Output(const std::string& name) const {
    for (size_t i = 0; i < s.g.outputs.size(); ++i)
      if (s.g.outputs[i].name == name) return i;
    ADD_FAILURE() << name;
    return 0;
  }
  // Draws one token a row, and advances `draws`.
  std::vector<int64_t> Draw(const std::vector<float>& logits, const std::vector<float>& sampling,
                            std::vector<int64_t>* draws, const std::vector<int64_t>& rows = {}) {
    ir::Values values;
    DType type = DType::kI64;
    for (const ir::GraphInput& in : s.g.inputs) {
      const Shape& shape = s.g.node(in.node).shape;
      if (in.name == "x") values.push_back(Data(DType::kF32, shape, logits));
      if (in.name == "sampling") values.push_back(Data(DType::kF32, shape, sampling));
      if (in.name == "draws") values.push_back(Data(DType::kI64, shape, *draws));
      if (in.name == "sample_rows") values.push_back(Data(DType::kI64, shape, rows));
      if (in.name == "last_tokens" || in.name == "input_ids") {
        type = s.g.node(in.node).dtype;
        values.push_back(Data(type, shape, std::vector<int64_t>(static_cast<size_t>(shape.elements()))));
      }
    }
    Result<ir::Values> out = ir::EvaluateGraph(s.g, values);
    EXPECT_TRUE(out.ok()) << out.status().message();
    const ir::ConstantData &next = *(*out)[Output("next_tokens")], &after = *(*out)[Output("draws_out")];
    std::memcpy(draws->data(), after.bytes.data(), after.bytes.size());
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < next.shape.elements(); ++i)
      tokens.push_back(scalar::Load<int64_t>(next.dtype, next.bytes.data(), i));
    return tokens;
  }
  SmallGraph s;
};

// How often each of `logits` is drawn.
std::map<int64_t, int> Counts(const std::vector<float>& logits, float temperature, float k, float p,
                              int times, DType type = DType::kF32) {
  const int64_t words = static_cast<int64_t>(logits.size()), rows = 50;
  Drawn drawn(Shape({rows, words}), DType::kI64, 1, type);
  std::vector<float> all, sampling;
  std::vector<int64_t> draws;
  for (int64_t r = 0; r < rows; ++r) {
    all.insert(all.end(), logits.begin(), logits.end());
    sampling.insert(sampling.end(), {temperature, k, p});
    draws.insert(draws.end(), {100 + r, 0});
  }
  std::map<int64_t, int> counts;
  for (int i = 0; i < times / rows; ++i)
    for (int64_t token : drawn.Draw(all, sampling, &draws)) ++counts[token];
  EXPECT_EQ(draws[1], times / rows) << "each draw counts";
  return counts;
}

TEST(AppendSamplingTest, TokensAreDrawnAsOftenAsSoftmaxSays) {
  const std::vector<float> logits = {0.5f, -1, 2, kNone, 1};
  for (float temperature : {0.5f, 1.0f, 2.0f}) {
    double sum = 0;
    for (float x : logits) sum += std::exp(x / temperature);
    constexpr int kTimes = 3000;
    const std::map<int64_t, int> counts = Counts(logits, temperature, 0, 1, kTimes);
    EXPECT_EQ(counts.count(3), 0u);
    for (const auto& [token, count] : counts) {
      const double likely = std::exp(logits[static_cast<size_t>(token)] / temperature) / sum;
      EXPECT_NEAR(count, kTimes * likely, 5 * std::sqrt(kTimes * likely) + 1)
          << token << " at " << temperature;
    }
  }
}

TEST(AppendSamplingTest, OnlyTheLikeliestAreDrawn) {
  const std::vector<float> logits = {1, 3, 2, 2.9f, -50, 2.8f};
  const auto drawn = [&](float k, float p) {
    std::set<int64_t> tokens;
    for (const auto& [token, count] : Counts(logits, 5, k, p, 1000)) tokens.insert(token);
    return tokens;
  };
  using Set = std::set<int64_t>;
  EXPECT_EQ(drawn(1, 1), Set({1}));
  EXPECT_EQ(drawn(3, 1), Set({1, 3, 5}));
  EXPECT_EQ(drawn(99, 1), Set({0, 1, 2, 3, 5})) << "the fifth is e^-10 as likely";
  EXPECT_EQ(drawn(0, 0.01f), Set({1}));
  // At this temperature tokens 1, 3, 5 and 2 have probabilities of 0.231, 0.226, 0.222 and 0.189.
  EXPECT_EQ(drawn(0, 0.22f), Set({1}));
  EXPECT_EQ(drawn(0, 0.24f), Set({1, 3}));
  EXPECT_EQ(drawn(0, 0.60f), Set({1, 3, 5}));
  EXPECT_EQ(drawn(2, 0.60f), Set({1, 3})) << "top-p is of what top-k leaves: half and half";
  EXPECT_EQ(drawn(2, 0.40f), Set({1}));
}

TEST(AppendSamplingTest, NearbyLogitsAreToldApart) {
  std::vector<float> logits(200);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>((i * 37) % 200) * 1e-4f - 60;
  logits[5] = -1e4f;
  std::vector<float> sorted = logits;
  std::sort(sorted.rbegin(), sorted.rend());
  for (float k : {10.0f, 100.0f}) {
    for (const auto& [token, count] : Counts(logits, 1, k, 1, 200))
      EXPECT_GE(logits[static_cast<size_t>(token)], sorted[static_cast<size_t>(k) - 1]) << "of " << k;
  }
}

// At a high temperature every allowed token is drawn: exactly the tokens that sorting finds, in each type,
// however many logits are equal.
TEST(AppendSamplingTest, WhatIsDrawnFromIsWhatSortingFinds) {
  for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (int distinct : {12, 30, 90}) {
      std::vector<float> logits(90);
      for (size_t i = 0; i < logits.size(); ++i)
        logits[i] = 8 + static_cast<float>((static_cast<int>(i) * 37) % distinct) / 16;
      std::vector<float> sorted = logits;
      std::sort(sorted.rbegin(), sorted.rend());
      for (size_t k : {size_t{1}, size_t{3}, size_t{8}, size_t{20}}) {
        std::set<int64_t> want, drawn;
        for (size_t i = 0; i < logits.size(); ++i)
          if (logits[i] >= sorted[k - 1]) want.insert(static_cast<int64_t>(i));
        for (const auto& [token, count] : Counts(logits, 200, static_cast<float>(k), 1, 400, type))
          drawn.insert(token);
        EXPECT_EQ(drawn, want) << Name(type) << " " << distinct << " " << k;
        // By probability the same tokens are allowed: each has about 1/90, and tokens equal to the last count
        // too.
        drawn.clear();
        const float share = (static_cast<float>(k) - 0.5f) / 90;
        for (const auto& [token, count] : Counts(logits, 2000, 0, share, 400, type)) drawn.insert(token);
        EXPECT_EQ(drawn, want) << Name(type) << " " << distinct << " " << k << " by share";
      }
    }
  }
}

TEST(AppendSamplingTest, WithoutATemperatureItIsTheGreatest) {
  Drawn drawn(Shape({2, 4}), DType::kI32);
  std::vector<int64_t> draws = {1, 7, 2, 9};
  const std::vector<float> logits = {0, 1, 3, 3, kNone, -9, kNone, kNone};
  EXPECT_EQ(drawn.Draw(logits, {0, 3, 0.5f, 0, 0, 0}, &draws), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(draws, (std::vector<int64_t>{1, 8, 2, 10}));
}

// A NaN anywhere in a row gives token -1, and other rows stay right. An infinite logit is the largest.
TEST(AppendSamplingTest, FromWhatIsNoNumberNoTokenIsDrawn) {
  const float infinite = std::numeric_limits<float>::infinity(),
              nan = std::numeric_limits<float>::quiet_NaN();
  for (const DType type : {DType::kI32, DType::kI64}) {
    for (const size_t at : {size_t{0}, size_t{2}, size_t{3}}) {
      Drawn drawn(Shape({3, 4}), type);
      std::vector<float> logits = {0, 1, 3, -1, 0, 9, 3, kNone, 0, infinite, 3, kNone};
      logits[at] = nan;
      for (const auto& [temperature, k, p] : {std::tuple(0.0f, 0.0f, 0.0f), std::tuple(0.1f, 0.0f, 1.0f),
                                              std::tuple(0.1f, 2.0f, 0.9f), std::tuple(0.1f, 0.0f, 0.5f)}) {
        std::vector<int64_t> draws = {1, 7, 2, 9, 3, 1};
        const std::vector<float> sampling = {temperature, k, p, temperature, k, p, temperature, k, p};
        EXPECT_EQ(drawn.Draw(logits, sampling, &draws), (std::vector<int64_t>{-1, 1, 1}))
            << temperature << " " << k;
      }
    }
    Drawn all(Shape({1, 3}), type);
    std::vector<int64_t> draws = {1, 7};
    EXPECT_EQ(all.Draw({nan, nan, nan}, {0.5f, 2, 0.9f}, &draws), std::vector<int64_t>{-1});
    EXPECT_EQ(all.Draw({nan, infinite, kNone}, {0, 0, 0}, &draws), std::vector<int64_t>{-1});
  }
}

TEST(AppendSamplingTest, LargeVocabulariesAreDrawnFromAlike) {
  for (int64_t words : {1000, 2000, 2011}) {
    Drawn drawn(Shape({2, words}));
    std::vector<float> logits(static_cast<size_t>(2 * words), -3.0f);
    const int64_t last = words - 1, likely[] = {0, words / 2, last};
    for (int64_t token : likely) logits[static_cast<size_t>(token)] = 20;
    logits[static_cast<size_t>(words + last)] = logits[static_cast<size_t>(words + 3)] = 5;
    std::vector<int64_t> draws(4);
    EXPECT_EQ(drawn.Draw(logits, {0, 0, 1, 0, 0, 1}, &draws), (std::vector<int64_t>{0, 3}))
        << "the first of equals";
    std::set<int64_t> tokens;
    for (int i = 0; i < 12; ++i) tokens.insert(drawn.Draw(logits, {1, 3, 1, 1, 2, 0.9f}, &draws)[0]);
    EXPECT_EQ(tokens, std::set<int64_t>(likely, likely + 3)) << words;
  }
}

TEST(AppendSamplingTest, ADrawIsOfItsSeedAndNumberAlone) {
  Drawn two(Shape({2, 64})), one(Shape({1, 64}));
  std::vector<float> logits(64), both;
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i));
  for (int row = 0; row < 2; ++row) both.insert(both.end(), logits.begin(), logits.end());
  std::set<int64_t> seen;
  const int64_t far = int64_t{1} << 40;
  for (int64_t number : {int64_t{0}, int64_t{1}, far}) {
    for (int64_t seed : {int64_t{0}, int64_t{3}, far + 3, int64_t{-1}}) {
      std::vector<int64_t> draws = {seed, number}, pair = {17, 5, seed, number};
      const std::vector<int64_t> alone = one.Draw(logits, {1, 0, 1}, &draws);
      EXPECT_EQ(two.Draw(both, {1, 0, 1, 1, 0, 1}, &pair)[1], alone[0]);
      seen.insert(alone[0]);
    }
  }
  EXPECT_GT(seen.size(), 6u) << "all bits of seed and number count";
}

TEST(AppendSamplingTest, EachTextEndsAtItsOwnRow) {
  Drawn drawn(Shape({2, 3, 4}), DType::kI64, 3);
  std::vector<float> logits(24);
  logits[1 * 4 + 2] = logits[12 + 2 * 4 + 3] = 1;
  logits[2] = logits[12 + 1] = 0.5f;
  std::vector<int64_t> draws(4);
  EXPECT_EQ(drawn.Draw(logits, std::vector<float>(6), &draws, {1, 2}), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(drawn.Draw(logits, std::vector<float>(6), &draws, {0, 0}), (std::vector<int64_t>{2, 1}));
}

std::string Refusal(const std::function<void(SmallGraph*)>& fill, const std::string& tokens = "") {
  SmallGraph s;
  s.g.name = "p";
  fill(&s);
  PassOptions options;
  options.sample_logits = "logits";
  options.sample_tokens = tokens;
  Result<PassResult> result = AppendSampling(&s.g, options);
  return result.ok() ? "" : result.status().message();
}

TEST(AppendSamplingTest, WhatCannotBeDrawnFromIsRefused) {
  const auto logits = [](SmallGraph* s, const Shape& shape, DType type = DType::kF32) {
    s->Out("logits", s->In("x", shape, type));
  };
  EXPECT_EQ(Refusal([&](SmallGraph* s) {
              logits(s, Shape({1, 4}));
            }),
            "--sample: program \"p\": no input has integers of shape [1, n]: tokens");
  EXPECT_EQ(
      Refusal([&](SmallGraph* s) {
        logits(s, Shape({1, 4}), DType::kI64);
      }),
      "--sample: program \"p\": \"logits\" is no logits: floats [texts, words] or [texts, tokens, words], of "
      "at most 2^24 words");
  const auto two = [&](SmallGraph* s) {
    logits(s, Shape({2, 4}));
    s->In("a", Shape({2, 1}), DType::kI64);
    s->In("b", Shape({2, 1}), DType::kI32);
  };
  EXPECT_EQ(Refusal(two),
            "--sample: program \"p\": which input has tokens? Say so: OUTPUT:INPUT, one of a, b");
  EXPECT_EQ(Refusal(two, "b"), "");
  EXPECT_EQ(Refusal(two, "c"), "--sample: program \"p\": there is no input \"c\"");
  EXPECT_EQ(Refusal(two, "x"), "--sample: program \"p\": the input \"x\" is no integers of shape [2, n]");
  EXPECT_EQ(Refusal([&](SmallGraph* s) {
              two(s);
              s->In("draws", Shape({1}));
            }),
            "--sample: program \"p\": the model has an input \"draws\" itself");
}

TEST(AppendSamplingTest, PrecisionIsLoweredOfTheModelAlone) {
  SmallGraph s;
  const NodeId x = s.In("x", Shape({1, 8}));
  std::vector<double> weight(8 * 32);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] = std::sin(static_cast<double>(i));
  s.In("tokens", Shape({1, 1}), DType::kI64);
  s.Out("logits", s.b.MatMul(x, s.b.Floats(DType::kF32, Shape({8, 32}), weight)));
  PassOptions options;
  options.sample_logits = "logits";
  options.precision = DType::kBF16;
  ASSERT_TRUE(AppendSampling(&s.g, options).ok());
  ASSERT_TRUE(LowerPrecision(&s.g, options).ok());
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    const bool drawing = !node.dead && node.sources == std::vector<std::string>{"--sample"};
    EXPECT_FALSE(drawing && node.dtype == DType::kBF16) << ir::Dump(s.g);
  }
  for (const ir::GraphOutput& output : s.g.outputs)
    EXPECT_NE(s.g.node(output.node).dtype, DType::kBF16) << output.name;
}

}  // namespace
}  // namespace rondo::passes
