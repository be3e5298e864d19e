// Patterns match the expressions that they read like, and no others; rewrites end, and leave nothing behind.
#include "compiler/passes/pattern.h"

#include "compiler/passes/rewrite.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using namespace pattern;

struct Expression : SmallGraph {
  NodeId in = In("x", {2, 3}), other = In("y", {2, 3});
  NodeId Scalar(double value) { return b.Scalar(DType::kF32, value); }
  bool Matches(const Pattern& p, NodeId id) { return Match(&g).At(p, id); }
};

TEST(Pattern, OperandsOfCommutativeOperationsMatchInEitherOrder) {
  Expression s;
  EXPECT_TRUE(s.Matches(x * 3, s.b.Mul(s.in, s.Scalar(3))));
  EXPECT_TRUE(s.Matches(x * 3, s.b.Mul(s.Scalar(3), s.in)));
  EXPECT_FALSE(s.Matches(x * 3, s.b.Mul(s.in, s.Scalar(4))));
  EXPECT_FALSE(s.Matches(x / 3, s.b.Div(s.Scalar(3), s.in)));
}

TEST(Pattern, ANameStandsForOneNodeAndOneNumber) {
  Expression s;
  EXPECT_TRUE(s.Matches(x * x, s.b.Mul(s.in, s.in)));
  EXPECT_FALSE(s.Matches(x * x, s.b.Mul(s.in, s.other)));
  EXPECT_TRUE(s.Matches((x - a) + a, s.b.Add(s.b.Sub(s.in, s.Scalar(2)), s.Scalar(2))));
  EXPECT_FALSE(s.Matches((x - a) + a, s.b.Add(s.b.Sub(s.in, s.Scalar(2)), s.Scalar(3))));
}

// What the first product's names stand for may only show in the second.
TEST(Pattern, AllOrdersAreTriedTogether) {
  Expression s;
  const NodeId left = s.b.Mul(s.other, s.in), right = s.b.Mul(s.b.Unary(TapeOp::kExp, s.in), s.other);
  EXPECT_TRUE(s.Matches(x * y + Exp(x) * y, s.b.Add(left, right)));
  EXPECT_FALSE(s.Matches(x * y + Exp(y) * y, s.b.Add(left, right)));
}

TEST(Pattern, OneOfTwo) {
  Expression s;
  const Pattern root = Rsqrt(x) | Reciprocal(Sqrt(x));
  EXPECT_TRUE(s.Matches(root, s.b.Unary(TapeOp::kRsqrt, s.in)));
  EXPECT_TRUE(s.Matches(root, s.b.Unary(TapeOp::kReciprocal, s.b.Unary(TapeOp::kSqrt, s.in))));
  EXPECT_FALSE(s.Matches(root, s.b.Unary(TapeOp::kReciprocal, s.in)));
}

TEST(Pattern, OnceIsReadByOneNode) {
  Expression s;
  const NodeId inner = s.b.Mul(s.in, s.Scalar(2)), outer = s.b.Mul(inner, s.Scalar(3));
  EXPECT_TRUE(s.Matches((x * a).Once() * b, outer));
  s.b.Unary(TapeOp::kExp, inner);
  EXPECT_FALSE(s.Matches((x * a).Once() * b, outer));
}

TEST(Pattern, WhatIsBehindAViewIsNamedInThatView) {
  Expression s;
  const NodeId inner = s.b.Unary(TapeOp::kNeg, s.b.Transpose(s.in, {1, 0}));  // [3, 2]
  const NodeId outer = s.b.Unary(TapeOp::kNeg, s.b.Slice(inner, 0, 1, 1, 2));
  EXPECT_FALSE(s.Matches(-(-x), outer));
  Match match(&s.g);
  ASSERT_TRUE(match.At(-(-x).Shown(), outer));
  const NodeId found = match[x];
  EXPECT_EQ(s.g.BaseOf(found), s.in);
  const View slice = ir::Slice(s.g.ViewOf(s.b.Transpose(s.in, {1, 0})), 0, 1, 1, 2);
  EXPECT_TRUE(s.g.ViewOf(found) == slice);
}

TEST(Rewrite, ReplacementsEnableOthers) {
  Expression s;
  NodeId at = s.in;
  for (int i = 0; i < 6; ++i) at = s.b.Unary(TapeOp::kNeg, at);
  s.Out("out", at);
  EXPECT_EQ(Total(ToFixedPoint(&s.g, {{-(-x), x}})), 3);
  EXPECT_EQ(s.g.outputs[0].node, s.g.inputs[0].node);
}

TEST(Rewrite, TheFirstThatAppliesIsCounted) {
  Expression s;
  s.Out("out", s.b.Mul(s.in, s.Scalar(1)));
  const auto never = [](Match&) { return false; };
  EXPECT_EQ(ApplyOnce(&s.g, {{x * 1, Exp(x), never}, {x * 1, x}, {x * a, Exp(x)}}),
            (std::vector<int64_t>{0, 1, 0}));
}

TEST(Rewrite, RewritesThatUndoEachOtherEnd) {
  Expression s;
  s.Out("out", s.b.Add(s.in, s.other));
  EXPECT_EQ(Total(ToFixedPoint(&s.g, {{x + y, x - (-y)}, {x - (-y), x + y}})), kMostSweeps);
  EXPECT_EQ(ir::Validate(s.g), "");
}

TEST(Rewrite, NodesOfARefusedReplacementReadNothing) {
  Expression s;
  s.Out("out", s.b.Add(s.in, s.other));
  const auto refused = [](Match& m) {
    m.Make(Exp(x));
    return kNoNode;
  };
  const auto reads_alone = [](Match& m) { return m.graph().UsersOf(m[x]).size() == 1; };
  EXPECT_EQ(ApplyOnce(&s.g, {{x + y, refused}, {x + y, x * y, reads_alone}}), (std::vector<int64_t>{0, 1}));
}

TEST(Rewrite, NewNodesAreAnnotatedAsTheRoot) {
  Expression s;
  const NodeId quotient = s.b.Div(s.in, s.other);
  s.g.node(quotient).annotations["label"] = "mine";
  s.g.node(quotient).sources = {"Div \"d\""};
  s.Out("out", quotient);
  EXPECT_EQ(Total(ApplyOnce(&s.g, {{x / y, x * Reciprocal(y)}})), 1);
  const ir::Node& out = s.g.node(s.g.outputs[0].node);
  EXPECT_EQ(out.annotations.at("label"), "mine");
  EXPECT_EQ(out.sources, std::vector<std::string>{"Div \"d\""});
}

}  // namespace
}  // namespace rondo::passes
