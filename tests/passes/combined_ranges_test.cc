// combined_ranges: kernels combine the extremes of what they compute; those of other tensors are found in one
// reduction, or combined if there are many elements.
#include "compiler/passes/passes.h"
#include "compiler/quantise/steps.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct Layers {
  bool product = true;  // a matmul computes it
  bool from_zero = false;
  int layers = 1;
  Shape shape{2, 4, 5, 7};
};

// Adds a DynamicQuantizeLinear as import writes it. Returns the number of changed extremes.
int64_t Combined(SmallGraph* s, const Layers& picture) {
  ir::Builder& b = s->b;
  NodeId x = s->In("x", picture.shape);
  for (int layer = 0; layer < picture.layers; ++layer) {
    if (picture.product) {
      ir::ConvAttrs attrs;
      attrs.strides = attrs.dilations = {1, 1};
      attrs.pads_begin = attrs.pads_end = {0, 0};
      x = b.Conv(x, b.Floats(DType::kF32, Shape{4, 4, 1, 1}, std::vector<double>(16, 0.25)), attrs);
    }
    x = b.BinaryScalar(TapeOp::kSub, x, 1);
    const auto extreme = [&](ir::ReduceKind kind, TapeOp op) {
      const NodeId all = b.Reduce(kind, b.Reduce(kind, x, {2}, true), {0, 1, 2, 3}, false);
      return b.BinaryScalar(op, all, 0);
    };
    const NodeId max = extreme(ir::ReduceKind::kMax, TapeOp::kMax);
    const NodeId min =
        picture.from_zero ? b.Scalar(DType::kF32, 0) : extreme(ir::ReduceKind::kMin, TapeOp::kMin);
    const NodeId scale = b.BinaryScalar(TapeOp::kDiv, b.Sub(max, min), 255);
    NodeId q = b.Add(b.Unary(TapeOp::kRound, b.Div(x, scale)), b.Unary(TapeOp::kRound, b.Div(min, scale)));
    q = b.Cast(b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, q, 0), 255), DType::kU8);
    const std::string number = std::to_string(layer);
    s->Out("numbers" + number, q);
    s->Out("scale" + number, scale);
    x = b.Mul(b.Cast(q, DType::kF32), scale);
  }
  return ExpectSame(s, [](ir::Graph* g, const PassOptions&) { return Tidied(g, CombineRanges(g)); }).changes;
}

TEST(CombinedRanges, BothExtremesOfWhatAProductMakesAreCombined) {
  SmallGraph s;
  EXPECT_EQ(Combined(&s, {.layers = 3}), 6);
  EXPECT_EQ(s.CountOf(Op::kReduce), 0) << ir::Dump(s.g);
  EXPECT_EQ(s.CountOf(Op::kIndexedWrite), 6);
}

TEST(CombinedRanges, ARangeFrom0HasOne) {
  SmallGraph s;
  EXPECT_EQ(Combined(&s, {.from_zero = true}), 1);
  EXPECT_EQ(s.CountOf(Op::kReduce), 0) << ir::Dump(s.g);
}

// The kernel that quantises computes its scale itself; the scale that is an output is another node.
TEST(CombinedRanges, WhoQuantisesComputesItsOwnScale) {
  SmallGraph s;
  Combined(&s, {.from_zero = true, .shape = {1, 4, 64, 64}});
  ExpectSame(&s, Rematerialise);
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    const bool one = !node.dead && node.op == Op::kPointwise && node.shape.elements() == 1;
    if (!one) continue;
    EXPECT_LE(s.g.UsersOf(id).size(), 1u) << ir::Dump(s.g);
  }
}

// Exporters guard 16 bits against overflow by a bound that depends on whether any element is infinite.
TEST(CombinedRanges, ExtremesThatNothingBoundsAreCombined) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    SmallGraph s;
    ir::Builder& b = s.b;
    const NodeId product = b.MatMul(s.In("x", {3, 4}, dtype), s.In("w", {4, 5}, dtype));
    const NodeId infinite = b.Cast(b.Unary(TapeOp::kIsInf, product, 3), DType::kI64);
    s.Out("any", b.Cast(b.Reduce(ir::ReduceKind::kMax, infinite, {0, 1}, false), DType::kBool));
    s.Out("least", b.Reduce(ir::ReduceKind::kMin, product, {0, 1}, true));
    const auto combine = [](ir::Graph* g, const PassOptions&) { return Tidied(g, CombineRanges(g)); };
    EXPECT_EQ(ExpectSame(&s, combine).changes, 2) << Name(dtype);
    EXPECT_EQ(s.CountOf(Op::kReduce), 0) << ir::Dump(s.g);
  }
}

// An f32 cell does not hold every integer.
TEST(CombinedRanges, ExtremesOfWideIntegersStay) {
  SmallGraph s;
  const NodeId product = s.b.MatMul(s.In("x", {3, 4}), s.In("w", {4, 5}));
  s.Out("most", s.b.Reduce(ir::ReduceKind::kMax, s.b.Cast(product, DType::kI64), {0, 1}, false));
  const auto combine = [](ir::Graph* g, const PassOptions&) { return Tidied(g, CombineRanges(g)); };
  EXPECT_EQ(ExpectSame(&s, combine).changes, 0);
}

// What a reduction computes: here elements, and rows that nothing else reads.
TEST(CombinedRanges, ReductionsCombineToo) {
  SmallGraph s;
  ir::Builder& b = s.b;
  const NodeId x = s.In("x", {6, 40});
  const NodeId norm = b.Sub(x, b.Mean(x, {1}, true));
  const auto most = [&](NodeId of) { return b.Reduce(ir::ReduceKind::kMax, of, {0, 1}, false); };
  s.Out("most of norm", most(b.Reduce(ir::ReduceKind::kMax, norm, {1}, true)));
  s.Out("most of rows", most(b.Mean(x, {1}, true)));
  const NodeId sums = b.Reduce(ir::ReduceKind::kSum, x, {1}, true);
  s.Out("shares", b.Div(sums, b.Expand(most(sums), b.shape(sums))));
  const auto combine = [](ir::Graph* g, const PassOptions&) { return Tidied(g, CombineRanges(g)); };
  EXPECT_EQ(ExpectSame(&s, combine).changes, 2) << ir::Dump(s.g);
  EXPECT_EQ(s.CountOf(Op::kIndexedWrite), 2);
}

// They are reduced in two steps, as import writes them. One kernel that combines is better than two.
TEST(CombinedRanges, WhatNoKernelMakesIsReadOnce) {
  SmallGraph s;
  EXPECT_EQ(Combined(&s, {.product = false}), 2);
  EXPECT_EQ(s.CountOf(Op::kReduce), 0) << ir::Dump(s.g);
  SmallGraph one;
  one.Out("most", one.b.Reduce(ir::ReduceKind::kMax, one.In("x", {5, 7}), {0, 1}, false));
  const auto combine = [](ir::Graph* g, const PassOptions&) { return Tidied(g, CombineRanges(g)); };
  EXPECT_EQ(ExpectSame(&one, combine).changes, 0) << "one reduction is one kernel, too";
}

TEST(CombinedRanges, OfSmallTensorsThatNoKernelMakesTheyAreFoundAtOnce) {
  const auto reductions = [](const Shape& shape, bool product, bool clusters) {
    SmallGraph s;
    const NodeId x =
        product ? s.b.MatMul(s.In("x", shape), s.In("w", {shape[1], shape[1]})) : s.In("x", shape);
    const NodeId lines = s.b.Reduce(ir::ReduceKind::kMax, x, {1}, true);
    s.Out("most", s.b.Reduce(ir::ReduceKind::kMax, lines, {0, 1}, false));
    PassOptions options;
    options.target.clusters = clusters;
    const auto find = [](ir::Graph* g, const PassOptions& o) {
      return Tidied(g, FindRangesAtOnce(g, o.target.clusters));
    };
    ExpectSame(&s, find, options);
    return s.CountOf(Op::kReduce);
  };
  EXPECT_EQ(reductions({64, 64}, false, false), 1);
  EXPECT_EQ(reductions({64, 65}, false, false), 2) << "more than a block reads";
  EXPECT_EQ(reductions({64, 1024}, false, true), 1) << "clusters have several blocks";
  EXPECT_EQ(reductions({64, 1025}, false, true), 2);
  EXPECT_EQ(reductions({64, 64}, true, true), 2) << "the matmul combines them";
}

}  // namespace
}  // namespace rondo::passes
