// keep_quantised: a value that is quantised again in the same way stays quantised; no other value changes.
#include "compiler/quantise/quantise.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct Quantised : SmallGraph {
  // DequantizeLinear and QuantizeLinear as import writes them.
  NodeId Real(NodeId x, double zero, double scale) {
    NodeId y = b.Cast(x, DType::kF32);
    if (zero != 0) y = b.BinaryScalar(TapeOp::kSub, y, zero);
    return b.BinaryScalar(TapeOp::kMul, y, scale);
  }
  NodeId Whole(NodeId x, double zero, double scale, DType dtype) {
    NodeId y = b.Unary(TapeOp::kRound, b.BinaryScalar(TapeOp::kDiv, x, scale));
    if (zero != 0) y = b.BinaryScalar(TapeOp::kAdd, y, zero);
    const double low = dtype == DType::kI8 ? -128 : 0;
    y = b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, y, low), low + 255);
    return b.Cast(y, dtype);
  }
  int64_t Changed() { return ExpectSame(this, KeepQuantised, {}, 100).changes; }
};

ir::PoolAttrs Window(int64_t pad) {
  ir::PoolAttrs attrs;
  attrs.kernel = {3, 3};
  attrs.strides = {2, 2};
  attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {pad, pad};
  return attrs;
}

TEST(KeepQuantised, TheSameStepsGiveTheSameNumbers) {
  for (DType dtype : {DType::kU8, DType::kI8}) {
    for (double zero : {0.0, 9.0}) {
      Quantised s;
      const NodeId x = s.In("x", Shape({4, 6}), dtype);
      s.Out("y", s.Whole(s.b.Transpose(s.Real(x, zero, 0.0371), {1, 0}), zero, 0.0371, dtype));
      EXPECT_GT(s.Changed(), 0);
      EXPECT_EQ(s.CountOf(Op::kPointwise), 0) << ir::Dump(s.g);
    }
  }
}

TEST(KeepQuantised, InOneChainOfFloatsToo) {
  Quantised s;
  const NodeId x = s.In("x", Shape({24}));
  const NodeId once = s.Whole(x, 3, 0.01, DType::kU8);
  s.Out("y", s.Whole(s.Real(once, 3, 0.01), 3, 0.01, DType::kU8));
  EXPECT_GT(s.Changed(), 0);
  EXPECT_EQ(s.CountOf(TapeOp::kRound), 1);
  EXPECT_EQ(s.CountOf(TapeOp::kDiv), 1);
}

TEST(KeepQuantised, OtherStepsStay) {
  const auto rounds = [](double zero, double scale, DType dtype) {
    Quantised s;
    const NodeId x = s.In("x", Shape({24}), DType::kU8);
    s.Out("y", s.Whole(s.Real(x, 9, 0.03), zero, scale, dtype));
    s.Changed();
    return s.CountOf(TapeOp::kRound) + s.CountOf(TapeOp::kAdd) + s.CountOf(TapeOp::kMin);
  };
  EXPECT_EQ(rounds(9, 0.03, DType::kU8), 0);
  EXPECT_EQ(rounds(9, 0.031, DType::kU8), 3);
  EXPECT_EQ(rounds(8, 0.03, DType::kU8), 1);  // another zero point
  EXPECT_EQ(rounds(9, 0.03, DType::kI8), 1);  // clamped
  Quantised s;
  const NodeId x = s.In("x", Shape({24}));  // not integers
  s.Out("y", s.Whole(s.b.BinaryScalar(TapeOp::kMul, x, 0.5), 0, 0.5, DType::kU8));
  EXPECT_EQ(s.Changed(), 0);
}

TEST(KeepQuantised, MaximaOfWindowsAreOfTheNumbers) {
  for (int64_t pad : {0, 1}) {
    Quantised s;
    const NodeId x = s.In("x", Shape({1, 3, 7, 8}), DType::kU8);
    const NodeId y = s.b.Pool(s.Real(x, 11, 0.2), Window(pad));
    s.Out("y", s.Whole(y, 11, 0.2, DType::kU8));
    s.Out("z", y);
    EXPECT_GT(s.Changed(), 0);
    EXPECT_EQ(s.CountOf(TapeOp::kRound), 0);
    for (NodeId id = 0; id < s.g.size(); ++id) {
      const ir::Node& node = s.g.node(id);
      EXPECT_TRUE(node.dead || node.op != Op::kPool || node.dtype == DType::kU8);
    }
  }
  Quantised negative;  // a negative scale reverses the order
  const NodeId x = negative.In("x", Shape({1, 3, 7, 8}), DType::kU8);
  negative.Out("y", negative.b.Pool(negative.Real(x, 0, -0.2), Window(0)));
  EXPECT_EQ(negative.Changed(), 0);
}

TEST(KeepQuantised, PiecesOfOneFormArePutTogetherAsNumbers) {
  const auto changed = [](double other) {
    Quantised s;
    const NodeId x = s.In("x", Shape({2, 3}), DType::kI8), y = s.In("y", Shape({2, 5}), DType::kI8);
    s.Out("z", s.Whole(s.b.Concat({s.Real(x, 0, 0.25), s.Real(y, 0, other)}, 1), 0, 0.25, DType::kI8));
    s.Changed();
    return s.CountOf(TapeOp::kRound) == 0;
  };
  EXPECT_TRUE(changed(0.25));
  EXPECT_FALSE(changed(0.5));
}

// On the host threads share a reduction; GPUs read many lines at once.
TEST(KeepQuantised, RangesAreFoundAtOnceOnTheHost) {
  for (const bool host : {true, false}) {
    for (const auto& [kind, shape, line] : {std::tuple{ir::ReduceKind::kMax, Shape({2, 3, 5, 7}), 2},
                                            {ir::ReduceKind::kMin, Shape({2, 3, 5, 7}), 2},
                                            {ir::ReduceKind::kMax, Shape({2, 3, 5}), 2},
                                            {ir::ReduceKind::kMin, Shape({9, 4}), 1},
                                            {ir::ReduceKind::kSum, Shape({9, 4}), 1},
                                            {ir::ReduceKind::kSum, Shape({2, 3, 5, 7}), 2}}) {
      SmallGraph s;
      const NodeId x = s.In("x", shape);
      const NodeId along = s.b.Reduce(kind, x, {line}, true);
      std::vector<int> all;
      for (int d = 0; d < shape.rank; ++d) all.push_back(d);
      s.Out("y", s.b.Reduce(kind, along, all, false));
      PassOptions options;
      if (host) options.target = HostTraits();
      const bool expected = host && kind != ir::ReduceKind::kSum;
      EXPECT_EQ(ExpectSame(&s, KeepQuantised, options, 100).changes, expected ? 1 : 0);
      int reductions = 0;
      for (NodeId id : s.g.TopologicalOrder()) {
        reductions += s.g.node(id).op == Op::kReduce;
      }
      EXPECT_EQ(reductions, expected ? 1 : 2) << ir::Dump(s.g);
    }
  }
}

}  // namespace
}  // namespace rondo::passes
