// scaled_ranges: the range of an image times a factor for each channel, computed from extremes of channels.
#include "compiler/quantise/quantise.h"
#include "compiler/quantise/steps.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct Scaled {
  std::vector<int> mean_axes = {2, 3};
  bool by_pixel = false;  // there is a factor for each pixel instead
  bool negative = false;  // some factors may be
  bool mean_of_other = false;
};

// An image times a factor for each channel, quantised as import writes DynamicQuantizeLinear. Returns the
// number of changed extremes.
int64_t ScaledIn(SmallGraph* s, const Scaled& scaled) {
  ir::Builder& b = s->b;
  const Shape shape{1, 6, 5, 7};
  const NodeId x = b.BinaryScalar(TapeOp::kSub, s->In("x", shape), 0.25);
  s->Out("mean", b.Reduce(ir::ReduceKind::kSum, scaled.mean_of_other ? s->In("y", shape) : x,
                          scaled.mean_axes, true));
  const NodeId factors = s->In("factors", scaled.by_pixel ? Shape{1, 1, 5, 7} : Shape{1, 6, 1, 1});
  const NodeId from_0 = scaled.negative ? factors : b.BinaryScalar(TapeOp::kMax, factors, 0);
  const NodeId picture = b.Mul(x, b.Expand(from_0, shape));
  const auto extreme = [&](ir::ReduceKind kind, TapeOp op) {
    return b.BinaryScalar(op, b.Reduce(kind, b.Reduce(kind, picture, {2}, true), {0, 1, 2, 3}, false), 0);
  };
  const NodeId min = extreme(ir::ReduceKind::kMin, TapeOp::kMin),
               max = extreme(ir::ReduceKind::kMax, TapeOp::kMax);
  const NodeId scale = b.BinaryScalar(TapeOp::kDiv, b.Sub(max, min), 255);
  const NodeId q =
      b.Add(b.Unary(TapeOp::kRound, b.Div(picture, scale)), b.Unary(TapeOp::kRound, b.Div(min, scale)));
  s->Out("numbers",
         b.Cast(b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, q, 0), 255), DType::kU8));
  s->Out("scale", scale);
  const int64_t changed =
      ExpectSame(s, [](ir::Graph* g, const PassOptions&) { return Tidied(g, FindScaledRanges(g)); }).changes;
  if (changed == 0) return 0;
  // What computes the channels' factors combines them.
  EXPECT_EQ(ExpectSame(s, FuseQuantRange).changes, 2) << ir::Dump(s->g);
  EXPECT_EQ(s->CountOf(Op::kIndexedWrite), 2) << ir::Dump(s->g);
  return changed;
}

TEST(ScaledRanges, ExtremesOfChannelsAreThoseOfTheProducts) {
  SmallGraph s;
  EXPECT_EQ(ScaledIn(&s, {}), 2);
  // The reductions are the mean, and both extremes of each channel.
  EXPECT_EQ(s.CountOf(Op::kReduce), 3) << ir::Dump(s.g);
}

TEST(ScaledRanges, OthersStay) {
  for (const Scaled& scaled : {Scaled{.mean_axes = {2}}, Scaled{.mean_axes = {1}}, Scaled{.by_pixel = true},
                               Scaled{.mean_of_other = true}, Scaled{.negative = true}}) {
    SmallGraph s;
    EXPECT_EQ(ScaledIn(&s, scaled), 0) << ir::Dump(s.g);
  }
}

TEST(ScaledRanges, AFactorAPixelIsFoundAlongChannels) {
  SmallGraph s;
  EXPECT_EQ(ScaledIn(&s, {.mean_axes = {1}, .by_pixel = true}), 2);
}

}  // namespace
}  // namespace rondo::passes
