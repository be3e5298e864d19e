// Values that are needed only under a condition are computed only under it, with unchanged results.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/ir/builder.h"
#include "compiler/ir/loop.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

using ir::Builder;
using ir::Graph;
using ir::NodeId;

constexpr int64_t kEdge = 4;

FuseOptions Eager() {
  FuseOptions options;
  options.least_skipped = 0;
  return options;
}

size_t ConditionalParts(const LoweredProgram& program) {
  size_t count = 0;
  for (const LoweredOp& op : program.ops) {
    for (const Part& part : op.kernel.parts) count += part.when.empty() ? 0 : 1;
    if (op.kind == LoweredKind::kLoop) count += ConditionalParts(op.rounds->body);
  }
  return count;
}

// Random graphs of nested branches and of loops that end early, over square matrices. Indices are out of
// range if the branch that reads by them is not taken.
class RandomBranches {
 public:
  explicit RandomBranches(uint32_t seed) : rng_(seed), b_(&graph_) {
    for (const char* name : {"x", "y", "z"}) pool_.push_back(b_.Input(name, DType::kF32, {kEdge, kEdge}));
    for (const char* name : {"c0", "c1", "c2"}) conditions_.push_back(b_.Input(name, DType::kBool, Shape{}));
    flags_ = b_.Input("flags", DType::kBool, {3});
    index_ = b_.Input("index", DType::kI64, {kEdge});
    Steps(3, 3);
    for (int i = 0; i < 2; ++i)
      graph_.outputs.push_back({"out" + std::to_string(i), pool_[pool_.size() - 1 - Pick(2)]});
  }
  Graph graph_;

 private:
  size_t Pick(size_t n) { return rng_() % n; }
  NodeId Any() { return pool_[pool_.size() - 1 - Pick(std::min<size_t>(pool_.size(), 5))]; }
  NodeId Below(NodeId x, double limit) {
    const NodeId sum = b_.Reduce(ir::ReduceKind::kSum, x, {0, 1}, false);
    return b_.Binary(TapeOp::kLess, sum, b_.Scalar(DType::kF32, limit));
  }
  NodeId AnyCondition() {
    const NodeId c = conditions_[Pick(conditions_.size())], d = conditions_[Pick(conditions_.size())];
    switch (Pick(6)) {
      case 0: return b_.Unary(TapeOp::kNot, c);
      case 1: return b_.Binary(TapeOp::kBitAnd, c, d);
      case 2: return b_.Binary(TapeOp::kBitOr, c, d);
      case 3: return b_.Squeeze(b_.Slice(flags_, 0, static_cast<int64_t>(Pick(3)), 1, 1), 0);
      case 4: {
        conditions_.push_back(Below(Any(), 1));
        return conditions_.back();
      }
      default: return c;
    }
  }

  void Steps(size_t count, int depth) {
    for (size_t i = 0; i < count; ++i) Step(depth);
  }

  void Step(int depth) {
    const NodeId x = Any(), y = Any();
    switch (Pick(depth > 0 ? 12 : 7)) {
      case 0: return Push(b_.Unary(Pick(2) == 0 ? TapeOp::kTanh : TapeOp::kNeg, x));
      case 1: return Push(b_.Add(x, b_.Transpose(y, {1, 0})));
      case 2: return Push(b_.Unary(TapeOp::kTanh, b_.MatMul(x, y)));
      case 3: {
        const NodeId most = b_.Reduce(ir::ReduceKind::kMax, x, {1}, true);
        return Push(b_.Sub(y, b_.Expand(most, {kEdge, kEdge})));
      }
      case 4: return Push(b_.Gather(x, Index(), 0, false));
      case 5: return Push(Written(x, y));
      case 6: {
        const NodeId halves = b_.Concat({b_.Slice(x, 0, 0, 1, 2), b_.Slice(y, 0, 2, 1, 2)}, 0);
        return Push(b_.Mul(halves, halves));
      }
      case 7: return Push(Rounds(x, y));
      default: return Branches(depth - 1);
    }
  }

  // An index that is in range where faults count.
  NodeId Index() {
    const NodeId where = b_.faults_where();
    if (where == ir::kNoNode) return index_;
    return b_.Select(where, index_, b_.Scalar(DType::kI64, 1e6));
  }

  // Writes rows of y into x at an index.
  NodeId Written(NodeId x, NodeId y) {
    ir::IndexedAttrs attrs;
    attrs.map = ir::DenseView({kEdge, kEdge});
    attrs.map.steps[0].strides[0] = 0;
    attrs.dims = {{kEdge, kEdge, false}};
    return b_.IndexedWrite(x, y, {b_.Expand(b_.Unsqueeze(Index(), 1), {kEdge, kEdge})}, attrs);
  }

  // A loop that ends when the sum is large, after at most eight rounds.
  NodeId Rounds(NodeId x, NodeId y) {
    ir::LoopMaker maker(&b_, 8);
    const NodeId go = maker.Carried(AnyCondition()), value = maker.Carried(x);
    const NodeId next = b_.Add(b_.MatMul(value, y), b_.Unary(TapeOp::kAbs, value));
    std::vector<NodeId> last, all;
    const NodeId on = b_.Select(go, Below(next, 30), b_.Ints(DType::kBool, Shape{}, {0}));
    const NodeId row =
        b_.Select(go, b_.Reduce(ir::ReduceKind::kMax, next, {0}, false), b_.Scalar(DType::kF32, 0));
    if (!maker.Finish({on, b_.Select(go, b_.Unary(TapeOp::kTanh, next), value)}, {{row, false}}, &last, &all))
      return x;
    return b_.Add(last[1], b_.Slice(all[0], 0, 2, 1, kEdge));
  }

  void Branches(int depth) {
    const NodeId condition = AnyCondition(), outer = b_.faults_where();
    const std::vector<NodeId> pool = pool_, conditions = conditions_;
    NodeId arms[2];
    for (const bool taken : {true, false}) {
      const NodeId holds = taken ? condition : b_.Unary(TapeOp::kNot, condition);
      b_.FaultOnlyWhere(outer == ir::kNoNode ? holds
                                             : b_.Select(outer, holds, b_.Ints(DType::kBool, Shape{}, {0})));
      Steps(1 + Pick(3), depth);
      arms[taken ? 0 : 1] = pool_.back();
      if (Pick(4) != 0) {  // otherwise the other branch and later nodes may read this branch's values
        pool_ = pool;
        conditions_ = conditions;
      }
    }
    b_.FaultOnlyWhere(outer);
    Push(b_.Select(condition, arms[0], arms[1]));
  }

  void Push(NodeId id) { pool_.push_back(id); }

  std::mt19937 rng_;
  Builder b_;
  std::vector<NodeId> pool_, conditions_;
  NodeId flags_ = ir::kNoNode, index_ = ir::kNoNode;
};

TEST(Conditions, RandomBranchesKeepTheirMeaning) {
  size_t conditional = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomBranches random(seed);
    for (const bool gpu : {false, true}) {
      FuseOptions options = Eager();
      if (gpu) options.target = GpuTraits();
      conditional += ConditionalParts(ExpectFusionKeepsMeaning(random.graph_, seed, options, kEdge));
      if (testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(conditional, 1000u);
}

// A matmul in each branch.
Graph TwoProducts(int64_t side, bool shared) {
  Graph graph;
  Builder b(&graph);
  const NodeId x = b.Input("x", DType::kF32, {side, side}), c = b.Input("c", DType::kBool, Shape{});
  const NodeId v = b.Input("v", DType::kF32, {side, side}), w = b.Input("w", DType::kF32, {side, side});
  const NodeId left = shared ? b.MatMul(x, x) : x;
  const NodeId yes = b.Unary(TapeOp::kTanh, b.MatMul(left, v)), no = b.MatMul(left, w);
  graph.outputs.push_back({"y", b.Select(c, yes, no)});
  return graph;
}

TEST(Conditions, ProductsOfTwoBranchesAreEachComputedWhereItsIsTaken) {
  for (const bool shared : {false, true}) {
    const LoweredProgram program = ExpectFusionKeepsMeaning(TwoProducts(8, shared), 1, Eager());
    std::vector<uint16_t> polarities;
    size_t always = 0;
    for (const LoweredOp& op : program.ops) {
      for (const Part& part : op.kernel.parts) {
        if (part.skeleton != Skeleton::kMatMul) continue;
        if (part.when.empty()) ++always;
        for (uint16_t when : part.when) polarities.push_back(when & kUnless);
      }
    }
    std::sort(polarities.begin(), polarities.end());
    EXPECT_EQ(polarities, (std::vector<uint16_t>{0, kUnless}));
    EXPECT_EQ(always, shared ? 1u : 0u);
  }
}

// Rows without a key see all of `keys` keys, with queries of 0; unless `only_queries`, which changes queries
// alone.
Graph AttentionOfRowsThatMayBeEmpty(bool only_queries) {
  constexpr int64_t keys = 4;
  Graph graph;
  Builder b(&graph);
  const NodeId x = b.Input("x", DType::kF32, {1, 1, 1, 8}), w = b.Input("w", DType::kF32, {1, 1, 8, 8}),
               k = b.Input("k", DType::kF32, {1, 1, keys, 8}), v = b.Input("v", DType::kF32, {1, 1, keys, 8}),
               limit = b.Input("limit", DType::kI64, Shape{});
  const NodeId zero = b.Scalar(DType::kI64, 0), keeps = b.Binary(TapeOp::kLess, zero, limit),
               again = b.Binary(TapeOp::kLess, zero, limit);
  const NodeId q = b.Select(b.Expand(again, {1, 1, 1, 8}), b.MatMul(x, w), b.Scalar(DType::kF32, 0));
  const NodeId all = b.Scalar(DType::kI64, keys), seen = only_queries ? all : b.Select(keeps, limit, all);
  ir::AttentionAttrs attrs;
  graph.outputs.push_back({"y", b.Attention(q, k, v, ir::kNoNode, b.Expand(seen, {1, 1, 1}), attrs)});
  return graph;
}

TEST(Conditions, QueriesAreNotSkippedForRowsWithoutKeys) {
  for (uint32_t seed = 1; seed < 5; ++seed) {
    EXPECT_EQ(ConditionalParts(ExpectFusionKeepsMeaning(AttentionOfRowsThatMayBeEmpty(false), seed, Eager())),
              0u);
    EXPECT_EQ(ConditionalParts(ExpectFusionKeepsMeaning(AttentionOfRowsThatMayBeEmpty(true), seed, Eager())),
              1u);
  }
}

// The bools of both conditions come from two extremes. A kernel that computes the second also has rows that
// do not depend on it.
TEST(Conditions, ExtremesThatDecideSeveralBranchesKeepTheirMeaning) {
  for (uint32_t seed = 1; seed < 5; ++seed) {
    Graph graph;
    Builder b(&graph);
    const auto extreme = [&](const char* name) {
      return b.Reduce(ir::ReduceKind::kMax, b.Input(name, DType::kF32, {10}), {0}, false);
    };
    const NodeId x = extreme("x"), y = extreme("y"), z = b.Input("z", DType::kF32, {kEdge, 9});
    const auto below = [&](double limit) {
      const auto is = [&](NodeId v) { return b.Binary(TapeOp::kLessEqual, v, b.Scalar(DType::kF32, limit)); };
      return b.Binary(TapeOp::kBitAnd, is(x), is(y));
    };
    const auto sums = [&](TapeOp op) { return b.Reduce(ir::ReduceKind::kSum, b.Unary(op, z), {1}, false); };
    const NodeId above = b.Cast(b.Unary(TapeOp::kNot, below(2)), DType::kI64);
    const NodeId none = b.Gather(b.Floats(DType::kF32, {1}, {0}), above, 0, false);
    const NodeId result = b.Select(below(1.5), sums(TapeOp::kExp), b.Add(sums(TapeOp::kSin), none));
    graph.outputs.push_back({"result", result});
    EXPECT_GT(ConditionalParts(ExpectFusionKeepsMeaning(graph, seed, Eager())), 0u);
  }
}

TEST(Conditions, LittleWorkIsNotWorthACondition) {
  EXPECT_EQ(ConditionalParts(*Fuse(TwoProducts(8, false), {}, nullptr)), 0u);
  EXPECT_EQ(ConditionalParts(*Fuse(TwoProducts(64, false), {}, nullptr)), 2u);
}

}  // namespace
}  // namespace rondo
