#include "compiler/ir/graph.h"

#include <gtest/gtest.h>

#include "compiler/ir/builder.h"
#include "compiler/ir/number_range.h"

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

TEST(NumberRangeTest, BoundsHoldForWhatWrapsAroundAndForAbsentReads) {
  Graph g;
  Builder b(&g);
  const NodeId x = b.Input("x", DType::kF32, Shape({4}));
  const auto most = [&](NodeId id, double value) {
    return b.Binary(TapeOp::kMin, id, b.Scalar(DType::kF32, value));
  };
  const auto clamped = [&](double low, double high) {
    return b.Binary(TapeOp::kMax, most(x, high), b.Scalar(DType::kF32, low));
  };
  const auto range = [&](NodeId id, double low, double high) {
    const NumberRange r = RangeOf(g, id);
    EXPECT_EQ(r.least, low);
    EXPECT_EQ(r.most, high);
  };
  const NodeId index = b.Cast(clamped(0, 99), DType::kI32);
  range(index, 0, 99);
  range(b.Add(b.BinaryScalar(TapeOp::kMul, index, 10), index), 0, 1089);
  range(b.Cast(clamped(3, 99), DType::kI32), 0, 99);                           // NaN becomes 0
  range(b.Cast(b.Cast(clamped(0, 200), DType::kI64), DType::kI8), -128, 127);  // 200 becomes -56
  EXPECT_TRUE(b.AlwaysInside(index, {1, 100, false}));
  EXPECT_FALSE(b.AlwaysInside(index, {1, 99, false}));
  IndexedAttrs attrs;
  attrs.map = DenseView(Shape({4}));
  attrs.map.steps[0].strides[0] = 0;
  const NodeId data = b.Ints(DType::kI64, {5}, {5, 6, 7, 8, 9});
  for (const bool fault : {true, false}) {
    attrs.dims = {{1, 5, false, fault}};
    range(b.IndexedRead(data, {index}, attrs, Shape({4})), fault ? 5 : 0, 9);
  }
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
  g.Compact();  // keeps the cycle, which Validate names
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

// Changes between Try and TakeBack leave no trace in the text or in the lists of readers.
TEST(GraphTest, ChangesOnTrialAreTakenBack) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({4}));
  NodeId a = b.Unary(TapeOp::kExp, x);
  NodeId c = b.Unary(TapeOp::kNeg, a);
  NodeId d = b.Add(a, c);
  NodeId e = b.Unary(TapeOp::kSin, x);
  g.outputs = {{"o", d}, {"p", e}};
  g.inputs = {{"x", x}};
  g.RunAfter(e, c);
  const std::string before = Dump(g);
  const NodeId size = g.size();
  for (int round = 0; round < 3; ++round) {
    g.Try();
    NodeId made = b.Unary(TapeOp::kAbs, x);
    g.Replace(c, made);
    g.SetInput(d, 0, made);
    g.RunAfter(made, e);
    g.SetOutput(1, made);
    EXPECT_FALSE(g.Acyclic());  // `made` inherited the edge to e
    EXPECT_GT(g.RemoveUnused({a}), 0);
    EXPECT_NE(Dump(g), before);
    EXPECT_TRUE(g.UsersOf(c).empty());
    g.TakeBack();
    EXPECT_EQ(Dump(g), before);
    EXPECT_EQ(g.size(), size);
    EXPECT_EQ(g.Naming(c), (std::vector<NodeId>{d, e}));
    EXPECT_EQ(g.UsersOf(a), (std::vector<NodeId>{c, d}));
    EXPECT_EQ(g.OutputsAt(e), std::vector<size_t>{1});
    EXPECT_TRUE(g.Acyclic());
    EXPECT_TRUE(g.Reaches(a, d));
    EXPECT_TRUE(g.Reaches(c, e));
    EXPECT_FALSE(g.Reaches(e, d));
  }
  g.Try();
  NodeId kept = b.Unary(TapeOp::kAbs, x);
  g.Replace(c, kept);
  g.Keep();
  g.TakeBack();  // has no effect outside a trial
  EXPECT_TRUE(g.node(c).dead);
  EXPECT_TRUE(g.Reaches(kept, e));
}

// Reaches() agrees with a walk over all edges while edges are added and nodes replaced.
TEST(GraphTest, ReachesIsThatOfTheEdges) {
  uint32_t state = 7;
  const auto random = [&](NodeId n) {
    state = state * 1664525 + 1013904223;
    return static_cast<NodeId>((state >> 8) % static_cast<uint32_t>(n));
  };
  for (int trial = 0; trial < 40; ++trial) {
    Graph g;
    Builder b(&g);
    b.Input("x", DType::kF32, Shape({4}));
    for (int i = 0; i < 24; ++i) b.Add(random(g.size()), random(g.size()));
    const auto walk = [&](NodeId from, NodeId to) {
      std::vector<char> seen(static_cast<size_t>(g.size()), 0);
      std::vector<NodeId> stack = {to};
      while (!stack.empty()) {
        const NodeId id = stack.back();
        stack.pop_back();
        if (id == from) return true;
        if (seen[static_cast<size_t>(id)]++ != 0) continue;
        for (NodeId in : g.node(id).inputs) stack.push_back(in);
        for (NodeId in : g.node(id).weak_after) stack.push_back(in);
      }
      return false;
    };
    for (int step = 0; step < 60; ++step) {
      const NodeId a = 1 + random(g.size() - 1), c = 1 + random(g.size() - 1);
      if (g.node(a).dead || g.node(c).dead) continue;
      ASSERT_EQ(g.Reaches(a, c), walk(a, c)) << a << " to " << c << "\n" << Dump(g);
      if (step % 3 == 0 && !walk(c, a) && a != c) g.RunAfter(c, a);
      if (step % 7 == 0 && !walk(a, c) && !walk(c, a)) g.Replace(a, c);
      if (step % 5 == 0) b.Unary(TapeOp::kNeg, c);
      ASSERT_EQ(g.Acyclic(), !g.TopologicalOrder().empty());
    }
  }
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
