// integer_matmuls: matmuls of quantised values become matmuls of 8-bit integers; no other matmul changes.
#include "compiler/quantise/quantise.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

ir::ConvAttrs Conv(int64_t pad = 0, int64_t groups = 1) {
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {pad, pad};
  attrs.groups = groups;
  return attrs;
}

// Graphs whose weights are not folded.
struct Quantised : SmallGraph {
  Quantised() { b.FoldConstants(false); }

  // (x - zero) * scale, as import writes DequantizeLinear.
  NodeId Real(NodeId x, NodeId zero, NodeId scale) {
    NodeId y = b.Cast(x, DType::kF32);
    if (zero != ir::kNoNode) y = b.Sub(y, b.Cast(zero, DType::kF32));
    return b.Mul(y, scale);
  }
  NodeId Weight(DType dtype, const Shape& shape) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < shape.elements(); ++i)
      values.push_back((i * 37 + 11) % 251 - (dtype == DType::kI8 ? 128 : 0));
    return b.Ints(dtype, shape, values);
  }
  NodeId Number(DType dtype, double value) { return b.Scalar(dtype, value); }

  int64_t Changed() { return ExpectSame(this, LowerQuantised, {}, 100).changes; }
  // The number of matmuls of 8-bit integers.
  int64_t Products() const {
    int64_t n = 0;
    for (NodeId id = 0; id < g.size(); ++id) {
      const ir::Node& node = g.node(id);
      n += !node.dead && (node.op == Op::kMatMul || node.op == Op::kConv) && node.dtype == DType::kI32 &&
           ByteSize(g.node(node.inputs[0]).dtype) == 1;
    }
    return n;
  }
  // The bytes of constants.
  int64_t WeightBytes() const {
    int64_t bytes = 0;
    for (NodeId id = 0; id < g.size(); ++id) {
      if (!g.node(id).dead && g.IsConstant(id)) bytes += g.node(id).As<ir::ConstantAttrs>().data->byte_size();
    }
    return bytes;
  }
};

TEST(IntegerMatmuls, QuantisedFactorsOfAllTypesAreMultipliedAsIntegers) {
  for (DType left : {DType::kU8, DType::kI8}) {
    for (DType right : {DType::kU8, DType::kI8}) {
      for (int zeros = 0; zeros < 4; ++zeros) {
        Quantised s;
        const NodeId x = s.In("x", Shape({2, 3, 8}), left);
        const NodeId columns = s.b.Ints(right, Shape({5}), {3, 0, 7, 1, 100});
        const NodeId scales = s.b.Floats(DType::kF32, Shape({5}), {0.1, 0.2, 0.3, 0.4, 0.5});
        const NodeId a =
            s.Real(x, (zeros & 1) != 0 ? s.Number(left, 17) : ir::kNoNode, s.Number(DType::kF32, 0.5));
        const NodeId w =
            s.Real(s.Weight(right, Shape({8, 5})), (zeros & 2) != 0 ? columns : ir::kNoNode, scales);
        s.Out("y", s.b.MatMul(a, w));
        EXPECT_EQ(s.Changed(), 1);
        EXPECT_EQ(s.Products(), 1);
      }
    }
  }
}

TEST(IntegerMatmuls, AWeightKeepsItsBytesWithItsRowsAlongK) {
  Quantised s;
  const NodeId w =
      s.Real(s.Weight(DType::kU8, Shape({64, 32})), s.Number(DType::kU8, 128), s.Number(DType::kF32, 0.125));
  const NodeId x =
      s.Real(s.In("x", Shape({4, 64}), DType::kU8), s.Number(DType::kU8, 9), s.Number(DType::kF32, 0.125));
  s.Out("y", s.b.MatMul(x, s.b.Transpose(s.b.Transpose(w, {1, 0}), {1, 0})));
  s.b.FoldConstants(true);
  EXPECT_EQ(s.Changed(), 1);
  EXPECT_LE(s.WeightBytes(), 64 * 32 * 11 / 10 + 32 * 4);
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    if (node.op != Op::kMatMul) continue;
    const ir::View view = s.g.ViewOf(node.inputs[1]);
    EXPECT_EQ(view.steps[0].strides[0], 1);
    EXPECT_EQ(s.g.node(s.g.BaseOf(node.inputs[1])).dtype, DType::kI8);
  }
}

// Import writes a transposed convolution whose windows tile the output in this way: a chain of views repeats
// the weight's scales and zero points, one for each channel.
TEST(IntegerMatmuls, WhatAChainOfViewsShowsAgainAndAgainIsOneNumberForAllOfK) {
  Quantised s;
  constexpr int64_t kIn = 6, kOut = 3, kTaps = 4;
  const auto of_channels = [&](NodeId x) {
    return s.b.Expand(s.b.Reshape(x, Shape({kOut, 1})), Shape({kIn, kOut, kTaps}));
  };
  const NodeId scales = of_channels(s.b.Floats(DType::kF32, Shape({kOut}), {0.5, 0.25, 0.125}));
  const NodeId zeros = of_channels(s.b.Ints(DType::kI8, Shape({kOut}), {0, 0, 0}));
  const NodeId w = s.Real(s.Weight(DType::kI8, Shape({kIn, kOut, kTaps})), zeros, scales);
  const NodeId x =
      s.Real(s.In("x", Shape({kIn, 5}), DType::kU8), s.Number(DType::kU8, 9), s.Number(DType::kF32, 0.5));
  s.Out("y", s.b.MatMul(s.b.Transpose(s.b.Reshape(w, Shape({kIn, kOut * kTaps})), {1, 0}), x));
  EXPECT_EQ(s.Changed(), 1);
  EXPECT_EQ(s.Products(), 1);
  // The weight has no zero point, so no sums of x are needed.
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    if (node.dead || node.op != Op::kReduce) continue;
    const ir::Node& cast = s.g.node(s.g.BaseOf(node.inputs[0]));
    EXPECT_TRUE(s.g.IsConstant(s.g.BaseOf(cast.inputs[0])));
  }
}

TEST(IntegerMatmuls, IntegersLessTheirZeroPointsAreMultipliedExactly) {
  Quantised s;
  const NodeId x = s.In("x", Shape({3, 8}), DType::kU8), w = s.In("w", Shape({8, 4}), DType::kI8);
  const NodeId zero = s.In("zero", Shape{}, DType::kU8);
  const NodeId a = s.b.Sub(s.b.Cast(x, DType::kI32), s.b.Cast(zero, DType::kI32));
  s.Out("y", s.b.MatMul(a, s.b.Cast(w, DType::kI32)));
  EXPECT_EQ(s.Changed(), 1);
  EXPECT_EQ(s.Products(), 1);
}

TEST(IntegerMatmuls, ConvolutionsArePaddedWithTheZeroPoint) {
  for (DType type : {DType::kU8, DType::kI8}) {
    for (const bool known : {true, false}) {
      Quantised s;
      const NodeId zero = known ? s.Number(type, 33) : s.In("zero", Shape{}, type);
      const NodeId x = s.Real(s.In("x", Shape({2, 3, 5, 6}), type), zero, s.Number(DType::kF32, 0.25));
      const NodeId scales = s.b.Floats(DType::kF32, Shape({4, 1, 1, 1}), {0.1, 0.2, 0.3, 0.4});
      const NodeId zeros = s.b.Ints(type, Shape({4, 1, 1, 1}), {0, 3, 0, 100});
      const NodeId w = s.Real(s.Weight(type, Shape({4, 3, 3, 3})), zeros, scales);
      s.Out("y", s.b.Conv(x, w, Conv(1)));
      EXPECT_EQ(s.Changed(), 1);
      EXPECT_EQ(s.Products(), 1);
      EXPECT_EQ(s.CountOf(Op::kPool), 1);  // sums over windows, for the weight's zero points
    }
  }
}

// On the host, a value that is quantised by a scale and zero point of the run is padded as bytes, with the
// zero point.
TEST(IntegerMatmuls, NumbersThatTheGraphMakesArePaddedAsBytes) {
  Quantised s;
  const NodeId scale = s.In("scale", Shape{}), zero = s.In("zero", Shape{}, DType::kU8);
  NodeId q = s.b.Unary(TapeOp::kRound, s.b.Div(s.In("x", Shape({1, 20, 5, 6})), scale));
  q = s.b.Add(q, s.b.Cast(zero, DType::kF32));
  q = s.b.BinaryScalar(TapeOp::kMin, s.b.BinaryScalar(TapeOp::kMax, q, 0), 255);
  const NodeId w =
      s.Real(s.Weight(DType::kI8, Shape({4, 20, 3, 3})), ir::kNoNode, s.Number(DType::kF32, 0.25));
  s.Out("y", s.b.Conv(s.Real(s.b.Cast(q, DType::kU8), zero, scale), w, Conv(1)));
  PassOptions options;
  options.target = HostTraits();
  EXPECT_EQ(ExpectSame(&s, LowerQuantised, options, 100).changes, 1);
  int64_t padded = 0;
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    padded += !node.dead && node.op == Op::kIndexedWrite && node.dtype == DType::kU8 &&
              node.shape == Shape({1, 20, 7, 8});
  }
  EXPECT_EQ(padded, 1);
}

// On GPUs such a value is padded before quantisation, by 0, which any scale maps to the zero point.
TEST(IntegerMatmuls, WhoQuantisesForAGpuPadsAsWell) {
  const auto writes = [](bool never_0, bool own_zero) {
    Quantised s;
    const NodeId given = s.In("scale", Shape{}), zero = s.In("zero", Shape{}, DType::kU8);
    const NodeId is_0 = s.b.Binary(TapeOp::kEqual, given, s.Number(DType::kF32, 0));
    const NodeId scale = never_0 ? s.b.Select(is_0, s.Number(DType::kF32, 1), given) : given;
    NodeId q = s.b.Unary(TapeOp::kRound, s.b.Div(s.In("x", Shape({1, 20, 5, 6})), scale));
    q = s.b.Add(q, s.b.Cast(own_zero ? zero : s.In("other", Shape{}, DType::kU8), DType::kF32));
    q = s.b.BinaryScalar(TapeOp::kMin, s.b.BinaryScalar(TapeOp::kMax, q, 0), 255);
    const NodeId w =
        s.Real(s.Weight(DType::kI8, Shape({4, 20, 3, 3})), ir::kNoNode, s.Number(DType::kF32, 0.25));
    s.Out("y", s.b.Conv(s.Real(s.b.Cast(q, DType::kU8), zero, given), w, Conv(1)));
    EXPECT_EQ(s.Changed(), 1);
    return s.CountOf(Op::kIndexedWrite);
  };
  EXPECT_EQ(writes(true, true), 0);
  EXPECT_EQ(writes(false, true), 1) << "0 / 0 is no zero point";
  EXPECT_EQ(writes(true, false), 1) << "0 becomes another number";
}

TEST(IntegerMatmuls, GroupsHaveTheirOwnSums) {
  Quantised s;
  const NodeId x = s.Real(s.In("x", Shape({1, 32, 4, 4}), DType::kU8), s.Number(DType::kU8, 5),
                          s.Number(DType::kF32, 0.25));
  const NodeId w = s.Real(s.Weight(DType::kU8, Shape({6, 16, 3, 3})), s.Number(DType::kU8, 100),
                          s.Number(DType::kF32, 0.1));
  s.Out("y", s.b.Conv(x, w, Conv(1, 2)));
  EXPECT_EQ(s.Changed(), 1);
}

// Groups of one channel: windows that slide over bytes, on GPUs in vectors of channels.
TEST(IntegerMatmuls, OneChannelAGroupIsAWindowThatSlides) {
  const auto changed = [](int64_t channels, bool host) {
    Quantised s;
    const NodeId x = s.Real(s.In("x", Shape({1, channels, 4, 4}), DType::kU8), s.Number(DType::kU8, 5),
                            s.Number(DType::kF32, 0.25));
    const NodeId w =
        s.Real(s.Weight(DType::kI8, Shape({channels, 1, 3, 3})), ir::kNoNode, s.Number(DType::kF32, 0.1));
    s.Out("y", s.b.Conv(x, w, Conv(1, channels)));
    PassOptions options;
    if (host) options.target = HostTraits();
    return ExpectSame(&s, LowerQuantised, options, 100).changes;
  };
  for (const int64_t channels : {8, 9}) EXPECT_EQ(changed(channels, true), 1);
  EXPECT_EQ(changed(8, false), 1);
  EXPECT_EQ(changed(9, false), 0);  // 9 channels are no whole vectors
}

// Zero points of weights are subtracted from the weights, in 16 bits if 8 do not hold the difference. Then no
// sums over windows are needed.
TEST(IntegerMatmuls, WeightsOfOneChannelAGroupAreLessTheirZeroPoints) {
  const auto weight_type = [](int64_t zero, bool host, bool each = false) {
    Quantised s;
    const std::vector<int64_t> zeros = {zero, zero + 3, zero - 2, zero + 1,
                                        zero, zero - 3, zero + 2, zero - 1};
    const NodeId x = s.Real(s.In("x", Shape({1, 8, 5, 4}), DType::kU8), s.In("zero", Shape{}, DType::kU8),
                            s.Number(DType::kF32, 0.25));
    const NodeId w =
        s.Real(s.Weight(DType::kU8, Shape({8, 1, 3, 3})),
               each ? s.b.Ints(DType::kU8, Shape({8, 1, 1, 1}), zeros) : s.Number(DType::kU8, zero),
               s.Number(DType::kF32, 0.1));
    s.Out("y", s.b.Conv(x, w, Conv(1, 8)));
    PassOptions options;
    if (host) options.target = HostTraits();
    EXPECT_EQ(ExpectSame(&s, LowerQuantised, options, 100).changes, 1);
    EXPECT_EQ(s.CountOf(Op::kPool), 0);
    for (NodeId id = 0; id < s.g.size(); ++id) {
      const ir::Node& node = s.g.node(id);
      if (!node.dead && node.op == Op::kConv) return s.g.node(s.g.BaseOf(node.inputs[1])).dtype;
    }
    return DType::kF32;
  };
  for (const bool host : {true, false}) {
    EXPECT_EQ(weight_type(125, host), DType::kI8);
    EXPECT_EQ(weight_type(90, host), DType::kI16);
    EXPECT_EQ(weight_type(90, host, true), DType::kI16) << "a zero point for each channel";
  }
}

// The host computes these sums beside the matmul by a weight of ones, also for padded windows.
TEST(IntegerMatmuls, ZeroPointsOfWeightsTakeSumsOfWindows) {
  for (const int64_t kernel : {1, 3}) {
    Quantised s;
    const NodeId x = s.Real(s.In("x", Shape({1, 20, 5, 4}), DType::kU8), s.In("zero", Shape{}, DType::kU8),
                            s.Number(DType::kF32, 0.25));
    const NodeId w = s.Real(s.Weight(DType::kU8, Shape({6, 20, kernel, kernel})), s.Number(DType::kU8, 90),
                            s.Number(DType::kF32, 0.125));
    s.Out("y", s.b.Conv(x, w, Conv(kernel / 2)));
    PassOptions options;
    options.target = HostTraits();
    EXPECT_EQ(ExpectSame(&s, LowerQuantised, options, 100).changes, 1);
    EXPECT_EQ(s.Products(), 2);
    EXPECT_EQ(s.CountOf(Op::kPool), 0);
  }
}

// For two activations the host computes the sums of both operands by matmuls as well, all in integers.
TEST(IntegerMatmuls, SumsOfActivationsAreProductsOnTheHost) {
  for (const bool host : {true, false}) {
    Quantised s;
    const NodeId real = s.Number(DType::kF32, 0.25);
    const NodeId a = s.Real(s.In("a", Shape({2, 3, 5, 8}), DType::kU8), s.Number(DType::kU8, 17), real);
    const NodeId b = s.Real(s.In("b", Shape({2, 3, 8, 7}), DType::kU8), s.Number(DType::kU8, 90), real);
    s.Out("y", s.b.MatMul(a, b));
    PassOptions options;
    if (host) options.target = HostTraits();
    EXPECT_EQ(ExpectSame(&s, LowerQuantised, options, 100).changes, 1);
    EXPECT_EQ(s.Products(), host ? 3 : 1);
    EXPECT_EQ(s.CountOf(Op::kReduce), host ? 0 : 2);
  }
}

// GPUs do so if the matmul has as many columns as a tile.
TEST(IntegerMatmuls, OfManyOutputsWindowsAreAddedUpBesideTheProductOnGpus) {
  for (const int64_t outputs : {6, 8}) {
    Quantised s;
    const NodeId x = s.Real(s.In("x", Shape({1, 20, 5, 4}), DType::kU8), s.In("zero", Shape{}, DType::kU8),
                            s.Number(DType::kF32, 0.25));
    const NodeId w = s.Real(s.Weight(DType::kU8, Shape({outputs, 20, 3, 3})), s.Number(DType::kU8, 90),
                            s.Number(DType::kF32, 0.125));
    s.Out("y", s.b.Conv(x, w, Conv(1)));
    EXPECT_EQ(s.Changed(), 1);
    EXPECT_EQ(s.Products(), outputs < 8 ? 1 : 2);
    EXPECT_EQ(s.CountOf(Op::kPool), outputs < 8 ? 1 : 0);
  }
}

// With fewer columns they sum the channels, then the windows, unless a window is a single pixel.
TEST(IntegerMatmuls, WindowsOfOnePixelHaveTheSumsOfItsChannels) {
  const auto pools = [](int64_t kernel, int64_t pad, int64_t stride) {
    Quantised s;
    const NodeId x = s.Real(s.In("x", Shape({1, 20, 5, 4}), DType::kU8), s.In("zero", Shape{}, DType::kU8),
                            s.Number(DType::kF32, 0.25));
    const NodeId w = s.Real(s.Weight(DType::kU8, Shape({6, 20, kernel, kernel})), s.Number(DType::kU8, 90),
                            s.Number(DType::kF32, 0.125));
    ir::ConvAttrs attrs = Conv(pad);
    attrs.strides.assign(2, stride);
    s.Out("y", s.b.Conv(x, w, attrs));
    EXPECT_EQ(ExpectSame(&s, LowerQuantised, {}, 100).changes, 1);
    return s.CountOf(Op::kPool);
  };
  EXPECT_EQ(pools(1, 0, 1), 0);
  EXPECT_EQ(pools(1, 0, 2), 1);
  EXPECT_EQ(pools(1, 1, 1), 1);
  EXPECT_EQ(pools(3, 1, 1), 1);
}

// Groups of few channels stay in floats, which are faster, unless their weights are a tenth of all weights.
TEST(IntegerMatmuls, GroupsOfFewChannelsAreIntegersWhereTheyAreMany) {
  for (const int64_t others : {8, 512}) {
    Quantised s;
    const NodeId real = s.Number(DType::kF32, 0.25);
    const NodeId x = s.Real(s.In("x", Shape({1, 8, 5, 4}), DType::kU8), s.Number(DType::kU8, 3), real);
    const NodeId grouped = s.Real(s.Weight(DType::kI8, Shape({8, 4, 3, 3})), ir::kNoNode, real);
    const NodeId whole = s.Real(s.Weight(DType::kI8, Shape({others, 8, 3, 3})), ir::kNoNode, real);
    s.Out("y", s.b.Conv(x, grouped, Conv(1, 2)));
    s.Out("z", s.b.Conv(x, whole, Conv(1)));
    PassOptions options;
    options.target = HostTraits();
    EXPECT_EQ(ExpectSame(&s, LowerQuantised, options, 100).changes, others == 8 ? 2 : 1);
  }
}

// Similar patterns that are something else.
TEST(IntegerMatmuls, OtherProductsStay) {
  const auto product = [](Quantised& s, NodeId left) {
    const NodeId w = s.Real(s.Weight(DType::kI8, Shape({8, 4})), ir::kNoNode, s.Number(DType::kF32, 0.5));
    s.Out("y", s.b.MatMul(left, w));
    return s.Changed();
  };
  const Shape shape({3, 8});
  {
    Quantised s;  // a float
    EXPECT_EQ(product(s, s.In("x", shape)), 0);
  }
  {
    Quantised s;  // a zero point that is no integer
    EXPECT_EQ(
        product(s, s.b.Sub(s.b.Cast(s.In("x", shape, DType::kU8), DType::kF32), s.Number(DType::kF32, 0.5))),
        0);
  }
  {
    Quantised s;  // a scale that changes along k
    const NodeId scale = s.b.Floats(DType::kF32, Shape({8}), {1, 2, 3, 4, 5, 6, 7, 8});
    EXPECT_EQ(product(s, s.Real(s.In("x", shape, DType::kU8), ir::kNoNode, scale)), 0);
  }
  {
    Quantised s;  // the scaled value is truncated to integers
    const NodeId scaled = s.Real(s.In("x", shape, DType::kU8), ir::kNoNode, s.Number(DType::kF32, 0.3));
    EXPECT_EQ(product(s, s.b.Cast(s.b.Cast(scaled, DType::kI32), DType::kF32)), 0);
  }
  {
    Quantised s;  // bools
    EXPECT_EQ(product(s, s.b.Cast(s.b.Cast(s.In("x", shape, DType::kU8), DType::kBool), DType::kF32)), 0);
  }
  {
    Quantised s;  // 16 bits
    EXPECT_EQ(product(s, s.Real(s.In("x", shape, DType::kI16), ir::kNoNode, s.Number(DType::kF32, 0.5))), 0);
  }
}

}  // namespace
}  // namespace rondo::passes
