// Recognition of attention from its operators, and of masks that are limits.
#include <limits>

#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::kNoNode;
using ir::NodeId;
using ir::Op;

NodeId Softmax(SmallGraph* s, NodeId x) {
  int last = s->b.shape(x).rank - 1;
  NodeId e = s->b.Unary(TapeOp::kExp, s->b.Sub(x, s->b.Reduce(ir::ReduceKind::kMax, x, {last}, true)));
  return s->b.Div(e, s->b.Reduce(ir::ReduceKind::kSum, e, {last}, true));
}

const ir::Node& Attention(const SmallGraph& s) {
  for (NodeId id = 0; id < s.g.size(); ++id) {
    if (!s.g.node(id).dead && s.g.node(id).op == Op::kAttention) return s.g.node(id);
  }
  ADD_FAILURE() << "no attention\n" << ir::Dump(s.g);
  return s.g.node(0);
}

// The sizes b, h, s, t, d of the graphs below. Keys have g heads.
constexpr int64_t kB = 2, kH = 4, kG = 2, kS = 3, kT = 5, kD = 6;

struct Pieces {
  SmallGraph s;
  NodeId q, k, v;  // [b, h, s, d], [b, h, d, t], [b, h, t, d], with repeated key heads

  Pieces() {
    q = s.b.Transpose(s.In("q", Shape({kB, kS, kH, kD})), {0, 2, 1, 3});
    k = s.b.Transpose(Repeated(s.In("k", Shape({kB, kT, kG, kD}))), {0, 1, 3, 2});
    v = Repeated(s.In("v", Shape({kB, kT, kG, kD})));
  }
  NodeId Repeated(NodeId x) {
    x = s.b.Unsqueeze(s.b.Transpose(x, {0, 2, 1, 3}), 2);
    x = s.b.Expand(x, Shape({kB, kG, kH / kG, kT, kD}));
    return s.b.Reshape(x, Shape({kB, kH, kT, kD}));
  }
};

TEST(RecogniseAttentionTest, GroupedHeadsScalesAndAnAddedMask) {
  Pieces p;
  SmallGraph& s = p.s;
  NodeId mask = s.In("mask", Shape({kB, 1, kS, kT}));
  NodeId scores =
      s.b.MatMul(s.b.BinaryScalar(TapeOp::kMul, p.q, 0.5), s.b.BinaryScalar(TapeOp::kMul, p.k, 0.5));
  scores = s.b.Add(s.b.BinaryScalar(TapeOp::kDiv, scores, 2), mask);
  s.Out("y", s.b.MatMul(Softmax(&s, scores), p.v));
  EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 1);
  const ir::Node& a = Attention(s);
  EXPECT_EQ(s.CountOf(Op::kMatMul), 0);
  EXPECT_FLOAT_EQ(a.As<ir::AttentionAttrs>().scale, 0.125f);
  EXPECT_EQ(s.g.node(a.inputs[1]).shape[1], kG);
  EXPECT_TRUE(s.g.ViewOf(a.inputs[1]).affine());
}

TEST(RecogniseAttentionTest, AMaskStandsOnEitherSideOfItsSumWhateverComputesIt) {
  for (const bool first : {false, true}) {
    for (const int how : {0, 1, 2, 3}) {
      Pieces p;
      SmallGraph& s = p.s;
      NodeId mask = s.In("mask", Shape({kB, 1, kS, kT}));
      if (how == 1) mask = s.b.Unary(TapeOp::kExp, s.In("all", Shape({kB, kH, kS, kT})));
      if (how == 2) mask = s.b.Sub(mask, s.In("less", Shape({kB, 1, kS, kT})));
      if (how == 3) mask = s.b.Reduce(ir::ReduceKind::kSum, s.In("many", Shape({kB, 2, kS, kT})), {1}, true);
      const NodeId scores = s.b.MatMul(p.q, p.k);
      const NodeId masked = first ? s.b.Add(mask, scores) : s.b.Add(scores, mask);
      s.Out("y", s.b.MatMul(Softmax(&s, masked), p.v));
      EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 1) << first << " " << how;
    }
  }
}

// As for scores that are scaled by the logarithm of their number.
TEST(RecogniseAttentionTest, ANumberThatOnlyARunKnowsIsAFactorOfTheQueries) {
  for (const bool masked_first : {false, true}) {
    for (const bool divides : {false, true}) {
      Pieces p;
      SmallGraph& s = p.s;
      const NodeId number = s.b.Unary(TapeOp::kExp, s.In("n", Shape({1})));
      const NodeId mask = s.In("mask", Shape({kB, 1, kS, kT}));
      NodeId scores = s.b.BinaryScalar(TapeOp::kMul, s.b.MatMul(p.q, p.k), 0.5);
      if (masked_first) scores = s.b.Add(scores, mask);
      scores = divides ? s.b.Div(scores, number) : s.b.Mul(number, scores);
      if (!masked_first) scores = s.b.Add(scores, mask);
      s.Out("y", s.b.MatMul(Softmax(&s, scores), p.v));
      // A mask that is added before would be multiplied too.
      EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, masked_first ? 0 : 1);
      if (masked_first) continue;
      EXPECT_FLOAT_EQ(Attention(s).As<ir::AttentionAttrs>().scale, 0.5f);
    }
  }
}

TEST(RecogniseAttentionTest, BatchesMergedWithHeads) {
  Pieces p;
  SmallGraph& s = p.s;
  NodeId q = s.b.Reshape(p.q, Shape({kB * kH, kS, kD})), k = s.b.Reshape(p.k, Shape({kB * kH, kD, kT}));
  NodeId v = s.b.Reshape(p.v, Shape({kB * kH, kT, kD}));
  NodeId mask = s.In("mask", Shape({kB, 1, 1, kT}));
  NodeId scores = s.b.Add(s.b.Reshape(s.b.MatMul(q, k), Shape({kB, kH, kS, kT})), mask);
  NodeId probabilities = s.b.Reshape(Softmax(&s, scores), Shape({kB * kH, kS, kT}));
  s.Out("y", s.b.MatMul(probabilities, v));
  EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 1);
  const ir::Node& a = Attention(s);
  EXPECT_TRUE(s.g.node(a.inputs[1]).shape == Shape({kB, kG, kT, kD}));
}

TEST(RecogniseAttentionTest, ChosenScoresNansAndASoftCap) {
  Pieces p;
  SmallGraph& s = p.s;
  NodeId keep = s.b.Binary(TapeOp::kLess, s.In("m", Shape({kS, kT})), s.b.Scalar(DType::kF32, 1.5));
  NodeId scores = s.b.MatMul(p.q, p.k);
  scores = s.b.BinaryScalar(TapeOp::kMul,
                            s.b.Unary(TapeOp::kTanh, s.b.BinaryScalar(TapeOp::kDiv, scores, 30)), 30);
  scores = s.b.Select(keep, scores, s.b.Scalar(DType::kF32, -std::numeric_limits<double>::infinity()));
  NodeId soft = Softmax(&s, scores);
  NodeId clean = s.b.Select(s.b.Unary(TapeOp::kIsNan, soft), s.b.Scalar(DType::kF32, 0), soft);
  s.Out("y", s.b.MatMul(clean, p.v));
  EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 1);
  const ir::AttentionAttrs& a = Attention(s).As<ir::AttentionAttrs>();
  EXPECT_FLOAT_EQ(a.softcap, 30);
  EXPECT_FLOAT_EQ(a.scale, 1);
  EXPECT_TRUE(a.nan_to_zero && a.has_mask);
}

// As in differential attention, whose heads have two values each.
TEST(RecogniseAttentionTest, WeightsOfSeveralValuesAreAnAttentionEach) {
  Pieces p;
  SmallGraph& s = p.s;
  const NodeId weights = Softmax(&s, s.b.MatMul(p.q, p.k));
  s.Out("y", s.b.MatMul(weights, p.v));
  s.Out("z", s.b.MatMul(weights, p.Repeated(s.In("w", Shape({kB, kT, kG, kD})))));
  EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 2);
  EXPECT_EQ(s.CountOf(Op::kMatMul), 0);
  EXPECT_EQ(s.CountOf(Op::kAttention), 2);
}

TEST(RecogniseAttentionTest, ScoresThatOthersReadStayPieces) {
  Pieces p;
  SmallGraph& s = p.s;
  NodeId soft = Softmax(&s, s.b.MatMul(p.q, p.k));
  s.Out("y", s.b.MatMul(soft, p.v));
  s.Out("weights", soft);
  EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 0);
  Pieces other;
  NodeId scores = other.s.b.MatMul(other.q, other.k);
  other.s.Out("y", other.s.b.MatMul(Softmax(&other.s, scores), other.v));
  other.s.Out("scores", scores);
  EXPECT_EQ(ExpectSame(&other.s, RecogniseAttention).changes, 0);
}

TEST(RecogniseAttentionTest, FusedOperatorsLoseRepeatedHeadsAndFactorsToo) {
  Pieces p;
  SmallGraph& s = p.s;
  NodeId k = s.b.BinaryScalar(TapeOp::kMul, s.b.Transpose(p.k, {0, 1, 3, 2}), 0.25);
  ir::AttentionAttrs attrs;
  attrs.scale = 2;
  s.Out("y", s.b.Attention(p.q, k, p.v, kNoNode, kNoNode, attrs));
  EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 1);
  EXPECT_EQ(s.g.node(Attention(s).inputs[1]).shape[1], kG);
  EXPECT_FLOAT_EQ(Attention(s).As<ir::AttentionAttrs>().scale, 0.5f);
  EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 0);
}

// Extra scores that only add to the sum. Exporters append them to the masked scores and cut them off after
// the softmax.
TEST(RecogniseAttentionTest, AScoreWithoutAValueIsASink) {
  for (const bool shifted : {false, true}) {
    Pieces p;
    SmallGraph& s = p.s;
    NodeId mask = s.In("mask", Shape({kB, 1, kS, kT}));
    NodeId sink = s.b.Expand(s.In("sink", Shape({1, kH, 1, 1})), Shape({kB, kH, kS, 1}));
    NodeId all = s.b.Concat({s.b.Add(s.b.MatMul(p.q, p.k), mask), sink}, 3);
    if (shifted) all = s.b.Sub(all, s.b.Reduce(ir::ReduceKind::kMax, all, {3}, true));
    s.Out("y", s.b.MatMul(s.b.Slice(Softmax(&s, all), 3, 0, 1, kT), p.v));
    EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 1);
    EXPECT_TRUE(Attention(s).As<ir::AttentionAttrs>().has_sink &&
                Attention(s).As<ir::AttentionAttrs>().has_mask);
    EXPECT_EQ(s.CountOf(Op::kMatMul), 0);
    EXPECT_EQ(ExpectSame(&s, DecomposeSinks).changes, 1);
    EXPECT_EQ(s.CountOf(Op::kAttention), 0);
  }
}

// It is no sink if another part of the softmax is read, or if more than one score is appended.
TEST(RecogniseAttentionTest, OtherScoresBesideStayPieces) {
  for (const auto& [beside, first] : {std::pair{1, 1}, std::pair{2, 0}}) {
    Pieces p;
    SmallGraph& s = p.s;
    NodeId more = s.In("more", Shape({kB, kH, kS, beside}));
    NodeId all = s.b.Concat({s.b.MatMul(p.q, p.k), more}, 3);
    s.Out("y", s.b.MatMul(s.b.Slice(Softmax(&s, all), 3, first, 1, kT), p.v));
    EXPECT_EQ(ExpectSame(&s, RecogniseAttention).changes, 0);
  }
}

TEST(DecomposeSinksTest, LimitsMasksAndCapsGoWithTheSink) {
  for (const bool keeps : {false, true}) {
    SmallGraph s;
    NodeId q = s.In("q", Shape({kB, kH, kS, kD})), k = s.In("k", Shape({kB, kG, kT, kD}));
    NodeId v = s.In("v", Shape({kB, kG, kT, kD}));
    NodeId mask = s.In("mask", Shape({kB, 1, kS, kT}));
    if (keeps) mask = s.b.Binary(TapeOp::kLess, mask, s.b.Scalar(DType::kF32, 0.5));
    NodeId limit = s.b.Ints(DType::kI64, {kS}, {0, 2, kT});  // a row that keeps nothing gives 0
    ir::AttentionAttrs attrs;
    attrs.scale = 0.5f;
    attrs.softcap = 2;
    s.Out("y", s.b.Attention(q, k, v, mask, limit, attrs, s.In("sink", Shape({kH, 1}))));
    EXPECT_EQ(ExpectSame(&s, RecogniseCausal).text.empty(), false);
    EXPECT_TRUE(Attention(s).As<ir::AttentionAttrs>().has_sink);
    EXPECT_EQ(ExpectSame(&s, DecomposeSinks).changes, 1);
  }
}

// An attention over inputs q, k, v with a mask made by `make`.
template <typename F>
SmallGraph Masked(F make) {
  SmallGraph s;
  NodeId q = s.In("q", Shape({kB, kH, kS, kD})), k = s.In("k", Shape({kB, kG, kT, kD}));
  NodeId v = s.In("v", Shape({kB, kG, kT, kD}));
  NodeId mask = make(&s);
  s.Out("y", s.b.Attention(q, k, v, mask, kNoNode, {}));
  return s;
}

NodeId Triangle(SmallGraph* s, int64_t rows) {
  std::vector<int64_t> keep;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t t = 0; t < kT; ++t) keep.push_back(t <= r);
  }
  return s->b.Ints(DType::kBool, Shape({rows, kT}), keep);
}
NodeId Added(SmallGraph* s, NodeId keep) {
  return s->b.Select(keep, s->b.Scalar(DType::kF32, 0), s->b.Scalar(DType::kF32, -3.4028234663852886e38));
}

void ExpectLimit(SmallGraph s, bool mask = false) {
  EXPECT_EQ(ExpectSame(&s, RecogniseCausal).changes, 1);
  EXPECT_TRUE(Attention(s).As<ir::AttentionAttrs>().has_limit);
  EXPECT_EQ(Attention(s).As<ir::AttentionAttrs>().has_mask, mask);
}

TEST(RecogniseCausalTest, AConstantTriangle) {
  ExpectLimit(Masked([](SmallGraph* s) { return Triangle(s, kS); }));
  ExpectLimit(Masked([](SmallGraph* s) { return Added(s, Triangle(s, kS)); }));
}

TEST(RecogniseCausalTest, RowsOfATableChosenByPosition) {
  ExpectLimit(Masked([](SmallGraph* s) {
    return Added(s, s->b.Gather(Triangle(s, kT), s->In("at", Shape({kS}), DType::kI64), 0));
  }));
}

TEST(RecogniseCausalTest, KeysComparedWithPositions) {
  auto at = [](SmallGraph* s) { return s->b.Unsqueeze(s->In("at", Shape({kS}), DType::kI64), 1); };
  auto keys = [](SmallGraph* s) { return s->b.I64({0, 1, 2, 3, 4}); };
  ExpectLimit(
      Masked([&](SmallGraph* s) { return Added(s, s->b.Binary(TapeOp::kLessEqual, keys(s), at(s))); }));
  ExpectLimit(Masked([&](SmallGraph* s) {
    return s->b.Unary(TapeOp::kNot, s->b.Binary(TapeOp::kLess, at(s), s->b.Iota(Shape({kT}), 0)));
  }));
}

TEST(RecogniseCausalTest, WhatIsNoPrefixStaysAMask) {
  ExpectLimit(Masked([](SmallGraph* s) {
                NodeId padding = s->b.Binary(TapeOp::kLess, s->In("p", Shape({kB, 1, 1, kT})),
                                             s->b.Scalar(DType::kF32, 1.9));
                return Added(s, s->b.Binary(TapeOp::kBitAnd, Triangle(s, kS), padding));
              }),
              true);
  ExpectLimit(Masked([](SmallGraph* s) {
                return s->b.Add(Added(s, Triangle(s, kS)), s->In("bias", Shape({1, kH, kS, kT})));
              }),
              true);
  SmallGraph other = Masked([](SmallGraph* s) {
    return s->b.Ints(DType::kBool, Shape({1, kT}), {1, 0, 1, 1, 0});
  });
  EXPECT_EQ(ExpectSame(&other, RecogniseCausal).changes, 0);
}

TEST(RecogniseCausalTest, AMaskThatKeepsAllVanishes) {
  SmallGraph s = Masked([](SmallGraph* g) { return g->b.Ints(DType::kBool, Shape({1}), {1}); });
  EXPECT_EQ(ExpectSame(&s, RecogniseCausal).changes, 1);
  EXPECT_FALSE(Attention(s).As<ir::AttentionAttrs>().has_mask);
  EXPECT_FALSE(Attention(s).As<ir::AttentionAttrs>().has_limit);
}

}  // namespace
}  // namespace rondo::passes
