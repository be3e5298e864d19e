// split_reductions: the slices' results give what the whole rows gave, and each kernel reads only what is in
// memory anyway.
#include "compiler/passes/split_reductions.h"

#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ReduceKind;

// A machine so small that rows of a few hundred elements are long.
SplitOptions Small() {
  SplitOptions options;
  options.processors = 4;
  options.row_bytes = 64;
  options.least_slice = 32;
  options.most_slice = 64;
  options.worth = 0;
  return options;
}

int64_t Splits(SmallGraph* s) {
  return ExpectSame(s, [](ir::Graph* g, const PassOptions&) { return SplitReductions(g, Small()); }).changes;
}

std::vector<const ir::Node*> Reductions(const SmallGraph& s) {
  std::vector<const ir::Node*> found;
  for (NodeId id = 0; id < s.g.size(); ++id)
    if (!s.g.node(id).dead && s.g.node(id).op == Op::kReduce) found.push_back(&s.g.node(id));
  return found;
}

// (x - mean) / deviation over the last dim, as importers write it.
NodeId Standard(ir::Builder& b, NodeId x) {
  const int last = b.shape(x).rank - 1;
  const NodeId apart = b.Sub(x, b.Mean(x, {last}, true));
  const NodeId variance = b.Mean(b.Mul(apart, apart), {last}, true);
  return b.Mul(apart, b.Unary(TapeOp::kRsqrt, b.BinaryScalar(TapeOp::kAdd, variance, 1e-5)));
}

NodeId Convolved(SmallGraph* s, int64_t channels, int64_t height, int64_t width, DType dtype) {
  const ir::ConvAttrs attrs{{1, 1}, {1, 1}, {0, 0}, {0, 0}, 1};
  return s->b.Conv(s->In("x", {2, 4, height, width}, dtype), s->In("w", {channels, 4, 1, 1}, dtype), attrs);
}

TEST(SplitReductions, GroupsOfChannelsAreSlicedByChannel) {
  SmallGraph s;
  const NodeId x = s.b.Cast(Convolved(&s, 16, 16, 24, DType::kF16), DType::kF32);
  const NodeId y = Standard(s.b, s.b.Reshape(x, {2, 8, 2 * 16 * 24}));
  s.Out("y", s.b.Reshape(y, {2, 16, 16, 24}));
  EXPECT_EQ(Splits(&s), 2);
  const auto reductions = Reductions(s);
  ASSERT_EQ(reductions.size(), 4u);
  for (size_t i : {0, 2}) {
    const ir::Node &slices = *reductions[i], &all = *reductions[i + 1];
    EXPECT_EQ(slices.shape, Shape({2, 8, 2, 8, 1, 1})) << "slices of 48 pixels in each channel";
    EXPECT_EQ(s.g.node(all.inputs[0]).shape, Shape({2, 8, 8, 2, 1, 1})) << "groups and channels lie together";
  }
  // Each kernel widens the convolution's result: nothing is stored as f32 but the slices' results.
  EXPECT_EQ(s.CountOf(TapeOp::kCast), 3);
  EXPECT_EQ(s.CountOf(TapeOp::kSub), 2) << "one for the deviations, one for the result";
}

// The same of an input whose channels lie last, flattened before it is widened.
TEST(SplitReductions, ChannelsThatLieLastAreSeenInViews) {
  SmallGraph s;
  const NodeId image = s.b.Transpose(s.In("x", {2, 16, 24, 16}, DType::kF16), {0, 3, 1, 2});
  const NodeId rows = s.b.Reshape(image, {2, 8, 2 * 16 * 24});
  s.Out("y", s.b.Reduce(ReduceKind::kSum, s.b.Cast(rows, DType::kF32), {2}, true));
  EXPECT_EQ(Splits(&s), 1);
  ASSERT_EQ(Reductions(s).size(), 2u);
  EXPECT_EQ(Reductions(s)[0]->shape, Shape({2, 8, 2, 8, 1, 1}));
  EXPECT_EQ(s.g.node(Reductions(s)[1]->inputs[0]).shape, Shape({2, 8, 8, 2, 1, 1}));
}

TEST(SplitReductions, WholeTensorsOfAnySize) {
  for (const Shape& shape :
       {Shape{4, 8, 10, 12}, Shape{1, 3, 31, 37}, Shape{1009}, Shape{2, 1009}, Shape{7, 211}}) {
    SmallGraph s;
    std::vector<int> axes;
    for (int d = 0; d < shape.rank; ++d) axes.push_back(d);
    const NodeId x = s.In("x", shape), n = s.In("n", shape, DType::kI32), h = s.In("h", shape, DType::kF16);
    s.Out("mean", s.b.Mean(x, axes, false));
    s.Out("max", s.b.Reduce(ReduceKind::kMax, x, axes, true));
    s.Out("min", s.b.Reduce(ReduceKind::kMin, n, axes, false));
    s.Out("sum", s.b.Reduce(ReduceKind::kSum, n, axes, false));
    s.Out("norm", s.b.Unary(TapeOp::kSqrt, s.b.Reduce(ReduceKind::kSum, s.b.Mul(x, x), axes, false)));
    s.Out("half", s.b.Mean(h, axes, false));
    EXPECT_EQ(Splits(&s), 6) << shape[0];
  }
}

TEST(SplitReductions, SumsOf16BitsAreF32BetweenTheKernels) {
  SmallGraph s;
  s.Out("y",
        s.b.Cast(s.b.Reduce(ReduceKind::kSum, s.In("x", {1, 512}, DType::kF16), {1}, true), DType::kF32));
  EXPECT_EQ(Splits(&s), 1);
  for (const ir::Node* reduction : Reductions(s)) EXPECT_EQ(reduction->dtype, DType::kF32);
}

// What no slice divides has a shorter one at its end.
TEST(SplitReductions, TheRestIsASliceOfItsOwn) {
  SmallGraph s;
  s.Out("y", s.b.Reduce(ReduceKind::kSum, s.In("x", {3, 1009}), {1}, true));
  EXPECT_EQ(Splits(&s), 1);
  EXPECT_EQ(s.CountOf(Op::kConcat), 1) << ir::Dump(s.g);
  EXPECT_EQ(s.CountOf(Op::kReduce), 3);
}

TEST(SplitReductions, ChannelsAtTheEndAreLeftToTheSecond) {
  SmallGraph s;
  const NodeId x = s.b.Reshape(s.In("x", {1, 512, 8}), {1, 512, 4, 2});
  s.Out("y", s.b.Reduce(ReduceKind::kSum, x, {1, 3}, true));
  EXPECT_EQ(Splits(&s), 1);
  EXPECT_EQ(Reductions(s)[0]->shape, Shape({16, 1, 4, 2})) << "32 pixels of each channel";
}

TEST(SplitReductions, OthersStay) {
  const auto splits = [](const Shape& shape, ReduceKind kind, int64_t row_bytes, int64_t worth) {
    SmallGraph s;
    s.Out("y", s.b.Reduce(kind, s.In("x", shape), {1}, true));
    SplitOptions options = Small();
    options.row_bytes = row_bytes;
    options.worth = worth;
    return SplitReductions(&s.g, options)->changes;
  };
  EXPECT_EQ(splits({1, 1024}, ReduceKind::kMax, 64, 0), 1);
  EXPECT_EQ(splits({1, 1024}, ReduceKind::kArgMax, 64, 0), 0);
  EXPECT_EQ(splits({1, 1024}, ReduceKind::kMax, 4096, 0), 0) << "the row stays on chip";
  EXPECT_EQ(splits({1, 1024}, ReduceKind::kMax, 64, 1 << 20), 0) << "saves less than two kernels cost";
  EXPECT_EQ(splits({64, 1024}, ReduceKind::kMax, 64, 1), 0) << "the rows fill the machine";
}

}  // namespace
}  // namespace rondo::passes
