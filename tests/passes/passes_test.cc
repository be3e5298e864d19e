// Folding, common subexpressions, simplification, concatenation, splitting and states, each on a small graph.
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

TEST(Simplify, WhetherAWidenedNumberIsInfiniteIsAskedOfItself) {
  SmallGraph s;
  const NodeId wide = s.b.Cast(s.In("x", {7}, DType::kF16), DType::kF32);
  s.Out("infinite", s.b.Unary(TapeOp::kIsInf, wide, 3));
  s.Out("nan", s.b.Unary(TapeOp::kIsNan, wide));
  s.Out("of an integer", s.b.Unary(TapeOp::kIsNan, s.b.Cast(s.In("i", {7}, DType::kI8), DType::kF32)));
  ExpectSame(&s, Simplify);
  EXPECT_EQ(s.CountOf(TapeOp::kCast), 1) << ir::Dump(s.g);
}

// Otherwise all elements would be written as wide numbers first.
TEST(Simplify, ElementsAreWidenedAfterTheyAreRead) {
  SmallGraph s;
  const NodeId index = s.In("index", {3}, DType::kI64);
  s.Out("some", s.b.Gather(s.b.Cast(s.In("x", {4, 7}, DType::kF16), DType::kF32), index, 1));
  s.Out("rounded first", s.b.Gather(s.b.Cast(s.In("z", {4, 7}), DType::kF16), index, 1));
  ExpectSame(&s, Simplify, {}, 3);
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    if (node.dead || node.op != Op::kIndexedRead) continue;
    EXPECT_EQ(node.dtype, DType::kF16) << ir::Dump(s.g);
  }
}

// As of the halves of rotated features: memory holds the narrow numbers.
TEST(Simplify, PiecesAreRoundedBeforeTheyAreConcatenated) {
  SmallGraph s;
  const NodeId x = s.In("x", {4, 7}), y = s.In("y", {4, 3});
  const NodeId joined = s.b.Concat({s.b.Unary(TapeOp::kNeg, x), s.b.Unary(TapeOp::kExp, y)}, 1);
  s.Out("z", s.b.Cast(joined, DType::kF16));
  const NodeId kept = s.b.Concat({x, y}, 1);
  s.Out("wide", kept);
  s.Out("narrow", s.b.Cast(kept, DType::kF16));
  ExpectSame(&s, Simplify);
  std::vector<DType> types;
  for (NodeId id = 0; id < s.g.size(); ++id)
    if (!s.g.node(id).dead && s.g.node(id).op == Op::kConcat) types.push_back(s.g.node(id).dtype);
  std::sort(types.begin(), types.end());
  EXPECT_EQ(types,
            (std::vector<DType>{std::min(DType::kF16, DType::kF32), std::max(DType::kF16, DType::kF32)}))
      << ir::Dump(s.g);
}

TEST(FoldConstantsTest, FoldsWhatDependsOnConstantsAloneButNoSyntheticWeight) {
  SmallGraph s;
  auto data = std::make_shared<ir::ConstantData>();
  data->shape = Shape({300, 300});
  data->synthetic = true;
  data->synthetic_scale = 1;
  NodeId w = s.b.Constant(data);
  NodeId x = s.In("x", Shape({300, 300}));
  NodeId iota = s.b.Cast(s.b.Iota(Shape({300, 300}), 1), DType::kF32);
  s.Out("y", s.b.Add(s.b.Mul(x, s.b.Unary(TapeOp::kNeg, w)), iota));
  PassResult r = ExpectSame(&s, FoldConstants);
  EXPECT_EQ(r.changes, 1);
  EXPECT_EQ(s.CountOf(TapeOp::kNeg), 1);
  EXPECT_EQ(s.CountOf(TapeOp::kCast), 0);
}

TEST(FoldConstantsTest, StopsAtTheLimit) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({300, 300}));
  s.Out("y", s.b.Mul(x, s.b.Cast(s.b.Iota(Shape({300, 300}), 1), DType::kF32)));
  PassOptions options;
  options.fold_bytes = 1000;
  EXPECT_EQ(ExpectSame(&s, FoldConstants, options).changes, 0);
}

TEST(FoldConstantsTest, AWeightBeyondTheLimitTakesInItsOwnNorm) {
  for (const bool read_otherwise : {false, true}) {
    SmallGraph s;
    s.b.FoldConstants(false);
    std::vector<double> values;
    for (int i = 0; i < 8 * 16; ++i) values.push_back(0.25 * i - 7);
    const NodeId weight = s.b.Floats(DType::kF32, Shape({8, 16}), values);
    const NodeId squares = s.b.Reduce(ir::ReduceKind::kSum, s.b.Mul(weight, weight), {1}, true);
    const NodeId scale = s.b.Div(s.b.Scalar(DType::kF32, 3), s.b.Unary(TapeOp::kSqrt, squares));
    s.Out("y", s.b.Mul(s.In("x", Shape({8, 16})), s.b.Mul(weight, scale)));
    if (read_otherwise) s.Out("w", weight);
    PassOptions options;
    options.fold_bytes = 64;
    ExpectSame(&s, FoldConstants, options);
    ExpectSame(&s, FoldConstants, options);
    EXPECT_EQ(s.CountOf(TapeOp::kSqrt), 0);
    EXPECT_EQ(s.CountOf(TapeOp::kMul), read_otherwise ? 2 : 1) << ir::Dump(s.g);
  }
}

TEST(CommonSubexpressionsTest, EqualNodesMergeUnlessAnnotationsDiffer) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({4}));
  NodeId a = s.b.Unary(TapeOp::kExp, x), b = s.b.Unary(TapeOp::kExp, x), c = s.b.Unary(TapeOp::kExp, x);
  s.g.node(c).annotations["fuse"] = "off";
  s.Out("y", s.b.Add(s.b.Add(a, b), c));
  EXPECT_EQ(ExpectSame(&s, EliminateCommonSubexpressions).changes, 1);
  EXPECT_EQ(s.CountOf(TapeOp::kExp), 2);
}

TEST(CommonSubexpressionsTest, ControlEdgesThatWouldBecomeACycleKeepBothNodes) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({4}));
  NodeId a = s.b.Unary(TapeOp::kExp, x), middle = s.b.Unary(TapeOp::kNeg, a), b = s.b.Unary(TapeOp::kExp, x);
  s.g.node(b).weak_after = {middle};
  s.Out("y", s.b.Add(middle, b));
  EXPECT_EQ(ExpectSame(&s, EliminateCommonSubexpressions).changes, 0);
  EXPECT_EQ(s.CountOf(TapeOp::kExp), 2);
}

TEST(SimplifyTest, IdentitiesVanishAndPowersAreCheap) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({4}));
  NodeId y = s.b.BinaryScalar(TapeOp::kSub, s.b.BinaryScalar(TapeOp::kMul, x, 1), 0);
  y = s.b.BinaryScalar(TapeOp::kPow, y, 2);
  y = s.b.BinaryScalar(TapeOp::kAdd, y, 0);
  y = s.b.Unary(TapeOp::kReciprocal, s.b.BinaryScalar(TapeOp::kPow, y, 0.5));
  y = s.b.BinaryScalar(TapeOp::kMul, s.b.BinaryScalar(TapeOp::kMul, y, 3), 5);
  y = s.b.Cast(s.b.Cast(s.b.Cast(y, DType::kF16), DType::kF32), DType::kF16);
  s.Out("y", s.b.Cast(y, DType::kF32));
  ExpectSame(&s, Simplify);
  EXPECT_EQ(s.CountOf(TapeOp::kPow), 0);
  EXPECT_EQ(s.CountOf(TapeOp::kAdd), 0);
  EXPECT_EQ(s.CountOf(TapeOp::kSub), 0);
  EXPECT_EQ(s.CountOf(TapeOp::kRsqrt), 1);
  EXPECT_EQ(s.CountOf(TapeOp::kMul), 2);
  EXPECT_EQ(s.CountOf(TapeOp::kCast), 2);
}

// Rewrites that would change -0, -inf, or a product that overflows: -0 + 0 is +0, and (x * 1e30) * 1e-30 is
// inf where x * 1 is not.
TEST(SimplifyTest, WhatIsNoIdentityStays) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({4}));
  s.Out("sum", s.b.BinaryScalar(TapeOp::kAdd, x, 0));
  s.Out("difference", s.b.BinaryScalar(TapeOp::kSub, x, -0.0));
  s.Out("product", s.b.BinaryScalar(TapeOp::kMul, s.b.BinaryScalar(TapeOp::kMul, x, 1e30), 1e-30));
  EXPECT_EQ(ExpectSame(&s, Simplify).changes, 0);
  // The reciprocal root of a value that may be negative takes three more instructions, but no pow.
  SmallGraph root;
  root.Out("y", root.b.BinaryScalar(TapeOp::kPow, root.In("x", Shape({4})), -0.5));
  ExpectSame(&root, Simplify);
  EXPECT_EQ(root.CountOf(TapeOp::kPow), 0);
  EXPECT_EQ(root.CountOf(TapeOp::kSelect), 1);
}

TEST(SimplifyTest, NarrowingCastsStay) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({4}));
  s.Out("y", s.b.Cast(s.b.Cast(x, DType::kBF16), DType::kF32));
  EXPECT_EQ(ExpectSame(&s, Simplify).changes, 0);
}

TEST(SimplifyTest, PiecesThatRestoreATensorAreTheTensor) {
  SmallGraph s;
  NodeId x = s.b.Unary(TapeOp::kExp, s.In("x", Shape({2, 8})));
  s.Out("y", s.b.Concat({s.b.Slice(x, 1, 0, 1, 5), s.b.Slice(x, 1, 5, 1, 2), s.b.Slice(x, 1, 7, 1, 1)}, 1));
  ExpectSame(&s, Simplify);
  EXPECT_EQ(s.CountOf(Op::kConcat), 0);
  EXPECT_EQ(s.CountOf(Op::kView), 0);
}

TEST(SimplifyTest, ConstantIndicesAreViews) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({4, 3}));
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(Shape({2, 3}));
  attrs.map.steps[0].strides[0] = 0;
  attrs.dims = {{3, 4, true}};
  NodeId index = s.b.Ints(DType::kI64, Shape({2, 1}), {-1, 1});
  s.Out("y", s.b.IndexedRead(x, {index}, attrs, Shape({2, 3})));
  ExpectSame(&s, Simplify);
  EXPECT_EQ(s.CountOf(Op::kIndexedRead), 0);
}

TEST(SimplifyTest, ControlEdgesOutliveAnIdentity) {
  SmallGraph s;
  NodeId x = s.b.Unary(TapeOp::kExp, s.In("x", Shape({4})));
  NodeId first = s.b.Unary(TapeOp::kSin, s.g.inputs[0].node), same = s.b.BinaryScalar(TapeOp::kMul, x, 1);
  NodeId last = s.b.Unary(TapeOp::kCos, s.g.inputs[0].node);
  s.g.node(same).weak_after = {first};
  s.g.node(last).weak_after = {same};
  for (NodeId id : {first, same, last}) s.Out("o", id);
  ExpectSame(&s, Simplify);
  NodeId exp = s.g.outputs[1].node;
  EXPECT_EQ(s.g.node(exp).weak_after, std::vector<NodeId>{s.g.outputs[0].node});
  EXPECT_EQ(s.g.node(s.g.outputs[2].node).weak_after, std::vector<NodeId>{exp});
}

TEST(RecogniseConcatTest, RotatedHalvesAreOneSignedView) {
  SmallGraph s;
  NodeId x = s.b.Transpose(s.In("x", Shape({1, 3, 2, 8})), {0, 2, 1, 3});
  NodeId low = s.b.Slice(x, 3, 0, 1, 4), high = s.b.Slice(x, 3, 4, 1, 4);
  s.Out("y", s.b.Concat({s.b.Unary(TapeOp::kNeg, high), low}, 3));
  EXPECT_EQ(ExpectSame(&s, RecogniseConcat).changes, 1);
  EXPECT_EQ(s.CountOf(Op::kConcat), 0);
  EXPECT_EQ(s.CountOf(TapeOp::kNeg), 0);
  EXPECT_EQ(s.CountOf(TapeOp::kMul), 1);
}

TEST(RecogniseConcatTest, InterleavedPairsAndRepeatsToo) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({3, 8}));
  NodeId even = s.b.Unsqueeze(s.b.Slice(x, 1, 0, 2, 4), 2), odd = s.b.Unsqueeze(s.b.Slice(x, 1, 1, 2, 4), 2);
  s.Out("pairs", s.b.Reshape(s.b.Concat({s.b.Unary(TapeOp::kNeg, odd), even}, 2), Shape({3, 8})));
  s.Out("twice", s.b.Concat({x, x}, 1));
  EXPECT_EQ(ExpectSame(&s, RecogniseConcat).changes, 2);
  EXPECT_EQ(s.CountOf(Op::kConcat), 0);
}

TEST(RecogniseConcatTest, UnevenPiecesStay) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({9})), y = s.In("y", Shape({2}));
  NodeId a = s.b.Slice(x, 0, 0, 1, 2), b = s.b.Slice(x, 0, 3, 1, 2), c = s.b.Slice(x, 0, 7, 1, 2);
  s.Out("u", s.b.Concat({a, b, c}, 0));
  s.Out("v", s.b.Concat({a, y}, 0));
  EXPECT_EQ(ExpectSame(&s, RecogniseConcat).changes, 0);
}

TEST(SplitMatmulsTest, FusedProjectionsComeApartWithTheirBias) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({1, 3, 4}));
  std::vector<double> w(4 * 10), bias(10);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i % 7) - 3;
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<double>(i);
  NodeId y = s.b.MatMul(x, s.b.Floats(DType::kF32, Shape({4, 10}), w));
  y = s.b.Add(y, s.b.Floats(DType::kF32, Shape({10}), bias));
  NodeId q = s.b.Transpose(s.b.Reshape(s.b.Slice(y, 2, 0, 1, 4), Shape({1, 3, 2, 2})), {0, 2, 1, 3});
  s.Out("q", s.b.Unary(TapeOp::kExp, q));
  s.Out("k", s.b.Unary(TapeOp::kNeg, s.b.Slice(y, 2, 4, 1, 3)));
  s.Out("v", s.b.Slice(y, 2, 7, 1, 3));
  EXPECT_EQ(ExpectSame(&s, SplitMatmuls).changes, 1);
  EXPECT_EQ(s.CountOf(Op::kMatMul), 3);
}

// Of many rows, for a GPU: whole if attention reads its columns, and apart if another op does.
TEST(SplitMatmulsTest, AttentionReadsAWideMatmul) {
  for (const bool gpu : {false, true}) {
    for (const int64_t rows : {64, 256}) {
      for (const bool rotates : {false, true}) {
        SmallGraph s;
        constexpr int64_t kWidth = 8;
        const NodeId y = s.b.MatMul(
            s.In("x", Shape({rows, 4})),
            s.b.Floats(DType::kF32, Shape({4, 3 * kWidth}), std::vector<double>(4 * 3 * kWidth, 0.25)));
        const auto part = [&](int64_t n) {
          return s.b.Reshape(s.b.Slice(y, 1, n * kWidth, 1, kWidth), Shape({1, 1, rows, kWidth}));
        };
        const NodeId q = rotates ? s.b.Unary(TapeOp::kNeg, part(0)) : part(0);
        s.Out("o", s.b.Attention(q, part(1), part(2), kNoNode, kNoNode, {}));
        PassOptions options;
        options.target.tensor_cores = gpu;
        EXPECT_EQ(ExpectSame(&s, SplitMatmuls, options).changes, gpu && rows == 256 && !rotates ? 0 : 1)
            << gpu << rows << rotates;
      }
    }
  }
}

TEST(SplitMatmulsTest, ReadersOfTheWholeKeepItWhole) {
  SmallGraph s;
  NodeId x = s.In("x", Shape({3, 4}));
  NodeId y = s.b.MatMul(x, s.b.Floats(DType::kF32, Shape({4, 4}), std::vector<double>(16, 0.5)));
  s.Out("a", s.b.Slice(y, 1, 0, 1, 2));
  s.Out("b", s.b.Slice(y, 1, 2, 1, 2));
  s.Out("all", s.b.Unary(TapeOp::kExp, y));
  EXPECT_EQ(ExpectSame(&s, SplitMatmuls).changes, 0);
}

// A cache that `position` updates, with names to try.
SmallGraph Cache(const std::string& in, const std::string& out) {
  SmallGraph s;
  NodeId cache = s.In(in, Shape({4, 2})), row = s.In("row", Shape({1, 2})),
         at = s.In("at", Shape({1, 1}), DType::kI64);
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView(Shape({1, 2}));
  attrs.dims = {{2, 4, true}};
  s.Out(out, s.b.IndexedWrite(cache, row, {at}, attrs));
  return s;
}

TEST(OrderConvolutionWeightsTest, SixteenBitWeightsOfSeveralPointsLieChannelsLastAndMeanTheSame) {
  SmallGraph s;
  auto weight = [&](DType dtype, const Shape& shape) {
    auto data = std::make_shared<ir::ConstantData>();
    data->dtype = dtype;
    data->shape = shape;
    data->synthetic = true;
    data->synthetic_key = 7;
    data->synthetic_scale = 0.1f;
    return s.b.Constant(data);
  };
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {1, 1};
  NodeId half = s.In("half", Shape({1, 8, 4, 4}), DType::kF16), x = s.In("x", Shape({1, 8, 4, 4}));
  s.Out("reordered", s.b.Cast(s.b.Conv(half, weight(DType::kF16, Shape({3, 8, 3, 3})), attrs), DType::kF32));
  s.Out("one point", s.b.Cast(s.b.Conv(half, weight(DType::kF16, Shape({3, 8, 1, 1})), attrs), DType::kF32));
  s.Out("f32", s.b.Conv(x, weight(DType::kF32, Shape({3, 8, 3, 3})), attrs));
  attrs.groups = 8;
  s.Out("depthwise", s.b.Cast(s.b.Conv(half, weight(DType::kF16, Shape({8, 1, 3, 3})), attrs), DType::kF32));
  SmallGraph on_host = s;
  EXPECT_EQ(ExpectSame(&s, OrderConvolutionWeights).changes, 2);
  const auto order = s.g.TopologicalOrder();
  EXPECT_TRUE(std::any_of(order.begin(), order.end(), [&](NodeId id) {
    return s.g.node(id).op == Op::kConstant && s.g.node(id).shape == Shape({3, 3, 1, 8});
  }));
  PassOptions host;
  host.target = HostTraits();
  EXPECT_EQ(ExpectSame(&on_host, OrderConvolutionWeights, host).changes, 4);
  for (NodeId id = 0; id < on_host.g.size(); ++id) {
    const ir::Node& node = on_host.g.node(id);
    if (node.op != ir::Op::kConv) continue;
    EXPECT_EQ(on_host.g.ViewOf(node.inputs[1]).steps[0].strides[0], 1);
  }
}

// As for a transposed convolution whose weight was folded late.
TEST(OrderConvolutionWeightsTest, OnAHostAViewOfAConstantIsAWeightToo) {
  SmallGraph s;
  std::vector<double> values;
  for (int i = 0; i < 4 * 3 * 2; ++i) values.push_back(0.25 * i - 3);
  s.b.FoldConstants(false);
  NodeId weight = s.b.Transpose(s.b.Floats(DType::kF32, Shape({3, 4, 2}), values), {1, 0, 2});
  weight = s.b.Slice(weight, 2, 1, -1, 2);
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1};
  attrs.pads_begin = attrs.pads_end = {0};
  s.Out("y", s.b.Conv(s.In("x", Shape({1, 3, 5})), weight, attrs));
  PassOptions host;
  host.target = HostTraits();
  EXPECT_EQ(ExpectSame(&s, OrderConvolutionWeights, host).changes, 1);
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    if (node.dead || node.op != Op::kConv) continue;
    EXPECT_EQ(s.g.ViewOf(node.inputs[1]).steps[0].strides[0], 1);
  }
}

TEST(LabelTest, AQuotientIsASoftmaxOnlyOfItsOwnSum) {
  for (const bool own : {true, false}) {
    SmallGraph s;
    const NodeId x = s.b.Unary(TapeOp::kExp, s.In("x", {2, 8}));
    const NodeId other = s.b.Unary(TapeOp::kExp, s.In("other", {2, 8}));
    const NodeId sum = s.b.Reduce(ir::ReduceKind::kSum, own ? x : other, {1}, true);
    const NodeId quotient = s.b.Div(x, sum);
    s.Out("y", quotient);
    s.Out("z", other);
    ASSERT_TRUE(Label(&s.g, {}).ok());
    const auto& annotations = s.g.node(quotient).annotations;
    const auto label = annotations.find("label");
    EXPECT_EQ(label == annotations.end() ? "" : label->second, own ? "softmax" : "");
  }
}

TEST(LabelTest, SaysHowManyOfEachItFound) {
  SmallGraph s;
  NodeId y = s.In("x", {2, 8});
  for (int i = 0; i < 3; ++i) {
    const NodeId e = s.b.Unary(TapeOp::kExp, y);
    y = s.b.Div(e, s.b.Reduce(ir::ReduceKind::kSum, e, {1}, true));
  }
  const NodeId mean = s.b.BinaryScalar(TapeOp::kAdd, s.b.Mean(s.b.Mul(y, y), {1}, true), 1e-5);
  s.Out("y", s.b.Mul(y, s.b.Unary(TapeOp::kRsqrt, mean)));
  const Result<PassResult> result = Label(&s.g, {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->changes, 4);
  EXPECT_EQ(result->text, "1 rms_norm, 3 softmax");
}

TEST(PairStateTest, ConventionsPairWhatIsReallyUpdated) {
  for (auto [in, out] :
       {std::pair("k_cache.3", "k_cache.3.out"), std::pair("k", "k_out"), std::pair("k", "k_new"),
        std::pair("past_key_values.0.key", "present.0.key"), std::pair("past_0", "present_0")}) {
    SmallGraph s = Cache(in, out);
    EXPECT_EQ(ExpectSame(&s, PairState).changes, 1) << in;
  }
  SmallGraph other = Cache("k", "logits");
  EXPECT_EQ(ExpectSame(&other, PairState).changes, 0);
  SmallGraph unrelated;
  unrelated.Out("x_out", unrelated.b.Unary(TapeOp::kExp, unrelated.In("x", Shape({4}))));
  EXPECT_EQ(ExpectSame(&unrelated, PairState).changes, 0);
}

// A recurrent layer's state is replaced in each run, not updated in some rows.
TEST(PairStateTest, WhatIsNamedAPastStateIsOne) {
  for (const auto& [in, out, states] :
       {std::tuple{"input.past_key_values.0.recurrent_states", "output.past_key_values.0.recurrent_states",
                   1},
        std::tuple{"past_ssm_state.0", "present_ssm_state.0", 1},
        std::tuple{"past_ssm.0", "present_ssm.0", 1}, std::tuple{"past_conv.0", "present_conv.0", 1},
        std::tuple{"past_recurrent.0", "present_recurrent.0", 1}, std::tuple{"past_x", "present_x", 0}}) {
    SmallGraph s;
    s.Out(out, s.b.Unary(TapeOp::kExp, s.In(in, Shape({4}))));
    EXPECT_EQ(ExpectSame(&s, PairState).changes, states) << in;
  }
}

TEST(PairStateTest, NamesThatDoNotFitAreErrors) {
  SmallGraph s = Cache("k", "k_out");
  PassOptions options;
  options.states = {{"nothing", "k_out"}};
  Result<PassResult> r = PairState(&s.g, options);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(std::string(r.status().message()).find("no input named nothing"), std::string::npos);
  options.states = {{"row", "k_out"}};
  r = PairState(&s.g, options);
  ASSERT_FALSE(r.ok());
  EXPECT_NE(std::string(r.status().message()).find("f32[1, 2]"), std::string::npos) << r.status().message();
}

}  // namespace
}  // namespace rondo::passes
