// State that is written in place while others still read its old contents: every reader sees its own version.
#include <gtest/gtest.h>

#include "compiler/ir/builder.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

using ir::Builder;
using ir::Graph;
using ir::NodeId;

constexpr int64_t kRows = 4, kColumns = 4;

class States {
 public:
  // `state_first`: the state "a" comes before all other inputs.
  explicit States(bool state_first = false) : b_(&graph_) {
    if (state_first) State("a");
    x_ = b_.Input("x", DType::kF32, Shape{kRows, kColumns});
    index_ = b_.Input("index", DType::kI64, Shape{kRows});
  }
  NodeId State(const std::string& name) {
    for (const ir::GraphInput& input : graph_.inputs) {
      if (input.name == name) return input.node;
    }
    return b_.Input(name, DType::kF32, Shape{kRows, kColumns});
  }
  NodeId Rows(NodeId from, int64_t start, int64_t count) { return b_.Slice(from, 0, start, 1, count); }
  NodeId Columns(NodeId from) { return b_.Slice(from, 1, 1, 1, 2); }
  NodeId Backwards(NodeId from, int axis) {
    int64_t n = b_.shape(from)[axis];
    return b_.Slice(from, axis, n - 1, -1, n);
  }
  // Writes `rows` into the rows of `data` that the index input names.
  NodeId Scatter(NodeId data, NodeId rows) {
    const Shape shape = b_.shape(rows);
    ir::IndexedAttrs attrs;
    attrs.map = ir::DenseView(shape);
    attrs.map.steps[0].strides[0] = 0;
    attrs.dims = {{kColumns, kRows, true}};
    NodeId index = b_.Reshape(b_.Slice(index_, 0, 0, 1, shape[0]), Shape{shape[0], 1});
    return b_.IndexedWrite(data, rows, {b_.Expand(index, shape)}, attrs);
  }
  // Writes `rows` into the rows of `data` from `start` on.
  NodeId Put(NodeId data, NodeId rows, int64_t start) {
    ir::IndexedAttrs attrs;
    attrs.map = ir::Slice(ir::DenseView(Shape{kRows, kColumns}), 0, start, 1, b_.shape(rows)[0]);
    attrs.may_collide = false;
    return b_.IndexedWrite(data, rows, {}, attrs);
  }
  void Output(NodeId node) { graph_.outputs.push_back({"y" + std::to_string(graph_.outputs.size()), node}); }
  void Pair(NodeId state, NodeId next) {
    int input = graph_.node(state).As<ir::InputAttrs>().index;
    graph_.states.push_back({input, static_cast<int>(graph_.outputs.size())});
    Output(next);
  }
  LoweredProgram Check(uint32_t seed = 1) {
    return ExpectFusionKeepsMeaning(graph_, seed, FuseOptions(), kRows);
  }

  Graph graph_;
  Builder b_;
  NodeId x_ = ir::kNoNode, index_ = ir::kNoNode;
};

TEST(State, RowsAreWrittenInPlaceByOneKernel) {
  States s;
  NodeId a = s.State("a");
  s.Pair(a, s.Scatter(a, s.Rows(s.x_, 0, 1)));
  EXPECT_EQ(s.Check().ops.size(), 1u);
}

TEST(State, RowsThatMoveWithinAStateAreReadBeforeAnyIsWritten) {
  States s;
  NodeId a = s.State("a");
  s.Pair(a, s.Scatter(a, s.Rows(a, 0, 3)));
  for (uint32_t seed = 0; seed < 20; ++seed) s.Check(seed);
}

TEST(State, PointwiseWorkOnTheOldContentsStaysOutOfTheWritingKernel) {
  States s;
  NodeId a = s.State("a");
  s.Pair(a, s.Scatter(a, s.b_.Unary(TapeOp::kNeg, s.Backwards(s.Rows(a, 1, 2), 1))));
  for (uint32_t seed = 0; seed < 20; ++seed) s.Check(seed);
}

TEST(State, AProductOfTheOldContentsIsNotWrittenIntoThemByItsEpilogue) {
  States s;
  NodeId a = s.State("a");
  s.Pair(a, s.Scatter(a, s.b_.MatMul(s.Rows(a, 0, 2), s.x_)));
  for (uint32_t seed = 0; seed < 20; ++seed) s.Check(seed);
}

TEST(State, AReaderOfOldAndNewContentsSeesBoth) {
  States s;
  NodeId a = s.State("a");
  NodeId next = s.Scatter(a, s.Rows(s.x_, 0, 1));
  s.Output(s.b_.Add(a, next));
  s.Pair(a, next);
  s.Check();
}

TEST(State, OldRowsThatNoWriteTouchesMayBeReadLate) {
  States s;
  NodeId a = s.State("a");
  NodeId next = s.Put(a, s.Rows(s.x_, 0, 2), 2);
  s.Output(s.b_.Add(s.b_.Unary(TapeOp::kNeg, s.Rows(a, 0, 1)), s.Rows(next, 3, 1)));
  s.Pair(a, next);
  LoweredProgram program = s.Check();
  EXPECT_EQ(program.ops.size(), 2u) << "the state is not copied";
}

TEST(State, AStateInAnotherOrderGoesThroughACopy) {
  States s;
  NodeId a = s.State("a"), b = s.State("b");
  s.Pair(a, s.b_.Transpose(a, {1, 0}));
  s.Pair(b, s.Backwards(b, 0));
  s.Check();
}

// Each piece is computed from the one before it, and another node reads each.
TEST(State, PiecesOfANewStateMayAllReadOneRowOfTheOld) {
  States s;
  NodeId a = s.State("a"), last = s.Rows(a, kRows - 1, 1);
  std::vector<NodeId> pieces = {s.b_.Expand(s.b_.Scalar(DType::kF32, 0), {1, kColumns})};
  NodeId row = last;
  for (int64_t i = 1; i < kRows; ++i) {
    row = s.b_.Add(s.b_.Mul(row, s.Rows(s.x_, i, 1)), s.Rows(s.x_, 0, 1));
    s.Output(s.b_.MatMul(row, s.x_));
    pieces.push_back(row);
  }
  s.Pair(a, s.b_.Concat(pieces, 0));
  for (uint32_t seed = 0; seed < 4; ++seed) s.Check(seed);
}

// In either order of the ports the state takes a copy, and the output needs none.
TEST(State, WhatAStateBecomesMayBeAnOutputToo) {
  for (const bool state_first : {false, true}) {
    States s;
    const NodeId a = s.State("a"), y = s.b_.Unary(TapeOp::kTanh, s.b_.Add(a, s.x_));
    if (!state_first) s.Output(y);
    s.Pair(a, y);
    if (state_first) s.Output(y);
    EXPECT_EQ(s.Check().ops.size(), 2u) << state_first;
  }
}

TEST(State, TwoStatesMaySwap) {
  States s;
  NodeId a = s.State("a"), b = s.State("b");
  s.Pair(a, b);
  s.Pair(b, a);
  s.Check();
}

TEST(State, OneStateMayReadAnotherThatIsWritten) {
  for (bool first : {false, true}) {
    States s;
    NodeId a = s.State("a"), b = s.State("b");
    NodeId next_b = first ? s.Put(b, s.Rows(a, 0, 1), 1) : ir::kNoNode;
    NodeId next_a = s.Put(a, s.Rows(s.x_, 0, 1), 0);
    if (!first) next_b = s.Put(b, s.Rows(a, 0, 1), 1);
    s.Pair(a, next_a);
    s.Pair(b, next_b);
    s.Check();
  }
}

// A random mix of reads and writes of two states. One write in `fresh` replaces a whole state.
class RandomStates : public States {
 public:
  explicit RandomStates(uint32_t seed, uint64_t fresh = 8) : States(seed % 2 == 1), rng_(seed) {
    NodeId state[2] = {State("a"), State("b")}, next[2] = {state[0], state[1]};
    pool_ = {x_, state[0], state[1]};
    int steps = 2 + static_cast<int>(Pick(8));
    for (int i = 0; i < steps; ++i) {
      size_t which = Pick(2);
      NodeId x = pool_[Pick(pool_.size())], y = pool_[Pick(pool_.size())];
      int64_t count = 1 + static_cast<int64_t>(Pick(kRows)),
              start = static_cast<int64_t>(Pick(kRows - count + 1));
      NodeId rows = Rows(x, static_cast<int64_t>(Pick(kRows - count + 1)), count);
      switch (Pick(fresh == 8 ? 9 : 17)) {
        case 0: pool_.push_back(b_.Add(x, y)); break;
        case 1: pool_.push_back(b_.Unary(TapeOp::kTanh, x)); break;
        case 2: pool_.push_back(b_.Transpose(x, {1, 0})); break;
        case 3: pool_.push_back(Backwards(x, static_cast<int>(Pick(2)))); break;
        case 4: pool_.push_back(b_.MatMul(x, y)); break;
        case 5:
          pool_.push_back(
              b_.Div(x, b_.BinaryScalar(TapeOp::kAdd, b_.Reduce(ir::ReduceKind::kMax, y, {1}, true), 9)));
          break;
        case 6: pool_.push_back(next[which] = Put(next[which], rows, start)); break;
        case 7: pool_.push_back(next[which] = Scatter(next[which], rows)); break;
        case 8: pool_.push_back(next[which] = Scatter(next[which], b_.Unary(TapeOp::kNeg, rows))); break;
        case 9: pool_.push_back(b_.Concat({Rows(x, 0, 2), Rows(y, 2, 2)}, 0)); break;
        case 10: pool_.push_back(b_.Concat({Put(Rows(x, 0, 2), Rows(y, 1, 1), 1), Rows(x, 2, 2)}, 0)); break;
        case 11:
          pool_.push_back(b_.Transpose(
              b_.Concat({b_.Transpose(Rows(x, 1, 3), {1, 0}), b_.Transpose(Rows(y, 0, 1), {1, 0})}, 1),
              {1, 0}));
          break;
        case 12: pool_.push_back(Put(x, rows, start)); break;
        case 13: {
          NodeId upper = Put(Rows(x, 0, 2), Rows(y, 1, 1), 1), lower = Put(Rows(x, 2, 2), Rows(y, 0, 1), 0);
          pool_.push_back(b_.Concat({lower, upper}, 0));
          break;
        }
        case 15: {
          NodeId inner = b_.Concat({Rows(x, 0, 1), Rows(y, 1, 1)}, 0);
          NodeId outer = b_.Concat({inner, b_.Unary(TapeOp::kTanh, Rows(y, 0, 2))}, 0);
          pool_.push_back(b_.Reshape(b_.Concat({inner, inner}, 0), b_.shape(x)));
          pool_.push_back(Put(outer, rows, start));
          break;
        }
        case 14:
          pool_.push_back(Put(b_.Concat({b_.Transpose(Rows(x, 0, 2), {1, 0}), Columns(y)}, 1), rows, start));
          break;
        default: pool_.push_back(b_.Select(b_.Binary(TapeOp::kLess, x, y), x, y)); break;
      }
    }
    Pair(state[0], Pick(fresh) == 0 ? pool_.back() : next[0]);
    Output(pool_[Pick(pool_.size())]);
    Pair(state[1], Pick(fresh) == 0 ? pool_[Pick(pool_.size())] : next[1]);
  }

 private:
  uint64_t Pick(uint64_t n) { return rng_() % n; }
  std::mt19937 rng_;
  std::vector<NodeId> pool_;
};

TEST(State, RandomReadsAndWritesKeepTheirMeaning) {
  for (uint32_t seed = 0; seed < 5'000; ++seed) {
    RandomStates(seed).Check(seed);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(State, RandomNewContentsKeepTheirMeaning) {
  for (uint32_t seed = 0; seed < 5'000; ++seed) {
    RandomStates(seed, 2).Check(seed);
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace rondo
