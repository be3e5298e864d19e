// Caches of a fixed length in models in which quantisers round caches, scores or weights to 8 bits. They give
// the results of growing caches at every number of cached positions.
#include <gtest/gtest.h>

#include <limits>

#include "compiler/ir/evaluate.h"
#include "tests/import/growing_decoder.h"

namespace rondo {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Rounding by kCache after kOther changes values, and so does rounding by kFiner, whose range is too small.
constexpr float kCache = 1.0f / 14, kOther = 1.0f / 12, kFiner = 1.0f / 16, kScores = 0.75f,
                kWeights = 1.0f / 120;

void ExpectSameRuns(Masks masks, const Quantised& quantised, float behind = 1e3f) {
  for (const int64_t rows : {1, 2}) {
    if (masks == Masks::kInput && rows == 2) continue;
    Decoder m(masks, true, 32, false, quantised);
    auto fixed = Fixed(m, rows);
    ASSERT_TRUE(fixed.ok()) << fixed.status().message();
    for (int64_t past = 0; past + rows <= kLength; ++past) ExpectSameRun(m, *fixed, past, rows, behind);
  }
}

TEST(QuantisedCachesTest, MeanWhatGrowingOnesDoWhereverNumbersAreRounded) {
  const Quantised all[] = {
      {.scores = kScores},
      {.masked = kScores},
      {.weights = kWeights},
      {.queries = kCache, .read = kCache},
      {.queries = kCache, .read = kCache, .weights = kWeights},
      {.queries = kCache, .read = kCache, .scores = kScores, .masked = kScores, .weights = kWeights},
      {.past = kCache, .present = kCache},
      {.past = kOther, .present = kCache},
      {.past = kFiner, .present = kCache, .scores = kScores},
      {.present = kCache, .weights = kWeights},
      {.past = kCache, .weights = kWeights},
      {.present = kCache, .bytes = true},
      {.present = kCache, .scores = kScores, .weights = kWeights, .bytes = true},
      {.present = kCache, .queries = kCache, .bytes = true},
      {.read = kCache, .weights = kWeights, .linear = true},
      {.past = kCache,
       .present = kCache,
       .queries = kCache,
       .read = kCache,
       .scores = kScores,
       .masked = kScores,
       .weights = kWeights},
      {.past = kOther,
       .present = kCache,
       .queries = kCache,
       .read = kFiner,
       .scores = kScores,
       .masked = kScores,
       .weights = kWeights},
  };
  for (const Masks masks : {Masks::kNone, Masks::kTriangle, Masks::kRanges, Masks::kInput, Masks::kWindow}) {
    for (size_t k = 0; k < std::size(all); ++k) {
      for (const bool is_signed : {false, true}) {
        SCOPED_TRACE("masks " + std::to_string(static_cast<int>(masks)) + ", " + std::to_string(k) +
                     (is_signed ? ", signed" : ""));
        Quantised quantised = all[k];
        quantised.is_signed = is_signed;
        ExpectSameRuns(masks, quantised);
        if (HasFailure()) return;
      }
    }
  }
}

// Elements that no run has written may hold anything: they are neither added nor multiplied.
TEST(QuantisedCachesTest, WhatHoldsNothingMayBeNoNumber) {
  for (const Quantised& quantised : {Quantised{.weights = kWeights}, Quantised{.scores = kScores}})
    ExpectSameRuns(Masks::kRanges, quantised, kNan);
}

// If rows are quantised in the same way as the cache, a row is written once, and the cache stays in place.
TEST(QuantisedCachesTest, AreWrittenInPlaceWhereRoundingAgainChangesNothing) {
  for (const float past : {0.0f, kCache, kOther}) {
    Decoder m(Masks::kRanges, true, 32, false, {.past = past, .present = kCache, .weights = kWeights});
    auto fixed = Fixed(m, 1);
    ASSERT_TRUE(fixed.ok()) << fixed.status().message();
    for (const ir::StatePair& state : fixed->states) {
      const ir::Node& kept = fixed->node(fixed->outputs[static_cast<size_t>(state.output)].node);
      const ir::NodeId cache = fixed->inputs[static_cast<size_t>(state.input)].node;
      EXPECT_EQ(kept.op == ir::Op::kIndexedWrite && kept.inputs[0] == cache, past != kOther)
          << "by a scale of " << past;
    }
  }
}

// A sum over positions that would count empty positions: after the subtraction each adds -0.5.
TEST(QuantisedCachesTest, SumsOfRoundedNumbersAreRefusedWithTheirNode) {
  Decoder m(Masks::kRanges, true, 32, false, {.scores = kScores, .weights = kWeights});
  m.Floats("half", {}, {0.5f});
  m.Node("Sub", {"weights_rounded", "half"}, {"moved"});
  m.Node("ReduceSum", {"moved", "three"}, {"all_of_them"});
  m.Output("all_of_them");
  const auto fixed = Fixed(m, 1);
  EXPECT_TRUE(Says(fixed.status(), {"ReduceSum_all_of_them", "positions that may hold nothing", "--shape"}))
      << fixed.status().message();
}

}  // namespace
}  // namespace rondo
