#include "compiler/ir/graph.h"

#include <gtest/gtest.h>

#include "compiler/ir/builder.h"

namespace rondo::ir {
namespace {

TEST(GraphTest, ReplacingUnderAViewKeepsViewsOverNonViews) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({2, 3}));
  NodeId y = b.Input("y", DType::kF32, Shape({3, 2}));
  NodeId neg = b.Unary(TapeOp::kNeg, x);
  NodeId out = b.Reshape(neg, Shape({6}));
  g.outputs.push_back({"out", out});
  NodeId t = b.Transpose(y, {1, 0});
  g.Replace(neg, t);
  EXPECT_EQ(Validate(g), "");
  EXPECT_EQ(g.node(out).inputs[0], y);
  EXPECT_EQ(g.node(out).As<ViewAttrs>().view.steps.size(), 2u);
  EXPECT_TRUE(g.node(neg).dead);
}

TEST(GraphTest, ReplaceMovesControlEdges) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({4}));
  NodeId first = b.Unary(TapeOp::kExp, x);
  NodeId middle = b.Unary(TapeOp::kNeg, x);
  NodeId last = b.Unary(TapeOp::kSin, x);
  g.node(middle).weak_after = {first};
  g.node(last).strong_after = {middle};
  NodeId instead = b.Unary(TapeOp::kAbs, x);
  for (NodeId id : {first, middle, last}) g.outputs.push_back({"o", id});
  g.Replace(middle, instead);
  EXPECT_EQ(g.node(instead).weak_after, std::vector<NodeId>{first});
  EXPECT_EQ(g.node(last).strong_after, std::vector<NodeId>{instead});
  EXPECT_EQ(Validate(g), "");
}

TEST(GraphTest, OrderThroughAnIdentityOverAnInputIsKept) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({4}));
  NodeId first = b.Unary(TapeOp::kExp, x);
  NodeId same = b.Unary(TapeOp::kAbs, x);
  NodeId last = b.Unary(TapeOp::kSin, x);
  g.node(same).weak_after = {first};
  g.node(last).weak_after = {same};
  for (NodeId id : {first, same, last}) g.outputs.push_back({"o", id});
  g.Replace(same, x);
  EXPECT_EQ(g.node(last).weak_after, std::vector<NodeId>{first});
  EXPECT_TRUE(g.node(x).weak_after.empty());
}

TEST(GraphTest, WeakEdgesKeepNothingAliveAndStrongOnesDo) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({4}));
  NodeId weak = b.Unary(TapeOp::kExp, x), strong = b.Unary(TapeOp::kNeg, x), out = b.Unary(TapeOp::kSin, x);
  g.node(out).weak_after = {weak};
  g.node(out).strong_after = {strong};
  g.outputs.push_back({"out", out});
  EXPECT_EQ(g.RemoveDead(), 1);
  EXPECT_TRUE(g.node(weak).dead);
  EXPECT_FALSE(g.node(strong).dead);
  EXPECT_TRUE(g.node(out).weak_after.empty());
  g.Compact();
  EXPECT_EQ(g.size(), 3);
  EXPECT_EQ(Validate(g), "");
}

TEST(GraphTest, ControlEdgesOrderAndCyclesAreSeen) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({4}));
  NodeId p = b.Unary(TapeOp::kExp, x), q = b.Unary(TapeOp::kNeg, x);
  g.node(p).weak_after = {q};
  EXPECT_EQ(g.TopologicalOrder(), (std::vector<NodeId>{x, q, p}));
  EXPECT_TRUE(g.Reaches(q, p));
  g.node(q).strong_after = {p};
  EXPECT_TRUE(g.TopologicalOrder().empty());
  g.Compact();  // leaves a cycle for Validate to name
  EXPECT_EQ(g.size(), 3);
  EXPECT_EQ(Validate(g), "the graph has a cycle");
}

TEST(GraphTest, CanReplaceRefusesACycle) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({4}));
  NodeId a = b.Unary(TapeOp::kExp, x), middle = b.Unary(TapeOp::kNeg, a), same = b.Unary(TapeOp::kExp, x);
  g.node(same).weak_after = {middle};
  EXPECT_FALSE(g.CanReplace(same, a));
  EXPECT_TRUE(g.CanReplace(a, same) == !g.Reaches(same, a));
}

TEST(GraphTest, DumpAndValidateNameTheNode) {
  Graph g;
  Builder b(&g);
  b.SetSources({"Neg \"n0\""});
  NodeId x = b.Input("x", DType::kF32, Shape({4}));
  NodeId y = b.Unary(TapeOp::kNeg, x);
  g.outputs.push_back({"y", y});
  EXPECT_NE(Dump(g).find("%1 = pointwise f32[4] {neg} (%0)  ; Neg \"n0\""), std::string::npos) << Dump(g);
  g.node(y).shape = Shape({5});
  EXPECT_NE(Validate(g).find("Neg \"n0\""), std::string::npos);
}

}  // namespace
}  // namespace rondo::ir
