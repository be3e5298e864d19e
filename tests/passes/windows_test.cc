// simplify_windows: convolutions that become matmuls, pools that become reductions, and those that stay.
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

ir::ConvAttrs Conv(int axes, int64_t stride = 1, int64_t pad = 0, int64_t groups = 1, int64_t dilation = 1) {
  ir::ConvAttrs attrs;
  const size_t n = static_cast<size_t>(axes);
  attrs.strides.assign(n, stride);
  attrs.dilations.assign(n, dilation);
  attrs.pads_begin.assign(n, pad);
  attrs.pads_end.assign(n, pad);
  attrs.groups = groups;
  return attrs;
}

int64_t Simplified(SmallGraph* s, bool channels_last) {
  PassOptions options;
  options.target.tensor_cores = channels_last;
  return ExpectSame(s, SimplifyWindows, options).changes;
}

class Windows : public testing::TestWithParam<bool> {};

TEST_P(Windows, ConvolutionsOfSinglePixelsAreProducts) {
  for (DType type : {DType::kF32, DType::kF16}) {
    SmallGraph s;
    auto conv = [&](const std::string& name, const Shape& x, int64_t out) {
      Shape w = x;
      w[0] = out;
      for (int d = 2; d < w.rank; ++d) w[d] = 1;
      const NodeId y = s.b.Conv(s.In(name, x, type), s.In(name + " weight", w, type), Conv(x.rank - 2));
      s.Out(name + " y", s.b.Cast(y, DType::kF32));
    };
    conv("picture", Shape({1, 8, 3, 5}), 16);
    conv("pictures", Shape({3, 8, 3, 5}), 7);
    conv("line", Shape({2, 5, 9}), 8);
    conv("volume", Shape({1, 4, 2, 3, 2}), 8);
    conv("one pixel", Shape({2, 12, 1, 1}), 6);
    EXPECT_EQ(Simplified(&s, GetParam()), 5) << Name(type);
    EXPECT_EQ(s.CountOf(Op::kConv), 0);
    EXPECT_EQ(s.CountOf(Op::kMatMul), 5);
  }
}

TEST_P(Windows, AWindowThatIsTheWholeInputIsAProduct) {
  SmallGraph s;
  s.Out("y", s.b.Conv(s.In("x", Shape({2, 3, 4, 5})), s.In("w", Shape({6, 3, 4, 5})), Conv(2)));
  s.Out("strided", s.b.Conv(s.In("x2", Shape({2, 3, 7})), s.In("w2", Shape({6, 3, 7})), Conv(1, 3)));
  EXPECT_EQ(Simplified(&s, GetParam()), 2);
  EXPECT_EQ(s.CountOf(Op::kConv), 0);
}

TEST_P(Windows, OtherConvolutionsStay) {
  SmallGraph s;
  const NodeId x = s.In("x", Shape({1, 4, 5, 5})), one = s.In("one", Shape({4, 4, 1, 1}));
  s.Out("strided", s.b.Conv(x, one, Conv(2, 2)));
  s.Out("padded", s.b.Conv(x, one, Conv(2, 1, 1)));
  s.Out("grouped", s.b.Conv(x, s.In("groups", Shape({4, 1, 1, 1})), Conv(2, 1, 0, 4)));
  s.Out("wide", s.b.Conv(x, s.In("wide", Shape({2, 4, 3, 3})), Conv(2)));
  s.Out("padded whole", s.b.Conv(x, s.In("whole", Shape({2, 4, 5, 5})), Conv(2, 1, 1)));
  s.Out("dilated", s.b.Conv(x, s.In("sparse", Shape({2, 4, 3, 3})), Conv(2, 1, 0, 1, 2)));
  EXPECT_EQ(Simplified(&s, GetParam()), 0);
  EXPECT_EQ(s.CountOf(Op::kConv), 6);
}

TEST_P(Windows, PoolsOfOneWindowAreReductions) {
  for (DType type : {DType::kF32, DType::kF16}) {
    SmallGraph s;
    const NodeId x = s.In("x", Shape({2, 3, 4, 5}), type);
    ir::PoolAttrs attrs{Combine::kMean, {4, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
    for (Combine kind : {Combine::kMean, Combine::kMax, Combine::kSum}) {
      attrs.kind = kind;
      s.Out("pool " + std::to_string(static_cast<int>(kind)), s.b.Cast(s.b.Pool(x, attrs), DType::kF32));
    }
    attrs.kernel = {4, 4};
    s.Out("two windows", s.b.Cast(s.b.Pool(x, attrs), DType::kF32));
    attrs.kernel = {4, 5};
    attrs.pads_begin = {0, 1};
    s.Out("padded", s.b.Cast(s.b.Pool(x, attrs), DType::kF32));
    EXPECT_EQ(Simplified(&s, GetParam()), 3) << Name(type);
    EXPECT_EQ(s.CountOf(Op::kPool), 2);
  }
}

// The sum of many 16-bit values overflows 16 bits, but their mean does not.
TEST_P(Windows, AMeanOf16BitValuesIsSummedInMore) {
  SmallGraph s;
  const NodeId x = s.b.BinaryScalar(TapeOp::kMul, s.In("x", Shape({1, 2, 40, 40}), DType::kF16), 500);
  const ir::PoolAttrs attrs{Combine::kMean, {40, 40}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  s.Out("y", s.b.Cast(s.b.Pool(x, attrs), DType::kF32));
  EXPECT_EQ(Simplified(&s, GetParam()), 1);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Windows, testing::Bool(),
                         [](const auto& one) { return one.param ? "ChannelsLast" : "ChannelsFirst"; });

}  // namespace
}  // namespace rondo::passes
