// fp8_matmuls: matmuls of scaled FP8 numbers read the FP8 codes directly; no other matmul changes.
#include "compiler/ir/packed.h"
#include "compiler/passes/match.h"
#include "compiler/quantise/quantise.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct Fp8 : SmallGraph {
  Fp8() { b.FoldConstants(false); }

  NodeId Scaled(NodeId numbers, NodeId scale) { return b.Mul(b.Cast(numbers, DType::kF32), scale); }
  NodeId Quantised(NodeId x, DType type, double scale) {
    const NodeId s = b.Scalar(DType::kF32, scale);
    return Scaled(b.Cast(b.Div(x, s), type), s);
  }
  NodeId Weight(DType type, const Shape& shape) {
    std::vector<uint8_t> codes;  // no NaN
    for (int64_t i = 0; i < shape.elements(); ++i)
      codes.push_back(static_cast<uint8_t>((i * 37 + 11) % 0x70));
    return b.Constant(ir::ConstantData::Own(type, shape, codes));
  }
  PassResult Run(bool fp8 = true) {
    PassOptions options;
    options.target.fp8 = fp8;
    return ExpectSame(this, LowerQuantised, options);
  }
  // Number of matmuls with FP8 operands and f32 sums.
  int64_t Products() const {
    int64_t n = 0;
    for (NodeId id = 0; id < g.size(); ++id) {
      const ir::Node& node = g.node(id);
      n += !node.dead && (node.op == Op::kMatMul || node.op == Op::kConv) && node.dtype == DType::kF32 &&
           IsFp8(g.node(node.inputs[0]).dtype) && IsFp8(g.node(node.inputs[1]).dtype);
    }
    return n;
  }
};

TEST(Fp8Matmuls, FactorsOfBothTypesAreMultipliedAsTheyLie) {
  for (DType left : {DType::kE4M3, DType::kE5M2}) {
    for (DType right : {DType::kE4M3, DType::kE5M2}) {
      Fp8 s;
      const NodeId scales = s.b.Floats(DType::kF32, Shape({5}), {0.1, 0.2, 0.3, 0.4, 0.5});
      const NodeId x = s.Quantised(s.In("x", Shape({2, 3, 8})), left, 0.25);
      s.Out("y", s.b.MatMul(x, s.Scaled(s.Weight(right, Shape({8, 5})), scales)));
      EXPECT_EQ(s.Run().changes, 1);
      EXPECT_EQ(s.Products(), 1);
    }
  }
}

TEST(Fp8Matmuls, TwoActivationsAreMultipliedAsTheyLie) {
  Fp8 s;
  const NodeId q = s.Quantised(s.In("q", Shape({2, 3, 8})), DType::kE4M3, 0.25);
  const NodeId k = s.Quantised(s.In("k", Shape({2, 5, 8})), DType::kE4M3, 0.5);
  s.Out("y", s.b.MatMul(q, s.b.Transpose(k, {0, 2, 1})));
  EXPECT_EQ(s.Run().changes, 1);
  EXPECT_EQ(s.Products(), 1);
}

// A weight after a DequantizeLinear, as import leaves it: rows with one scale each.
TEST(Fp8Matmuls, APackedWeightIsBytesInLinesAlongK) {
  for (const auto& [turned, block, changes] : {std::tuple(false, 64, 1), {true, 64, 0}, {false, 32, 0}}) {
    Fp8 s;
    std::vector<uint8_t> codes(48 * 64);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 37 % 0x70);
    std::vector<float> scales(static_cast<size_t>(48 * 64 / block));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f * static_cast<float>(i + 1);
    const auto matrix = ir::Pack(PackedType::kE4M3, 48, 64, block, codes, scales, {}, 0, DType::kF32);
    const NodeId weight = s.b.Constant(ir::PackedConstant(matrix, DType::kF32, "w"));
    const NodeId x = s.Quantised(s.In("x", Shape({4, turned ? 48 : 64})), DType::kE4M3, 0.25);
    s.Out("y", s.b.MatMul(x, turned ? weight : s.b.Transpose(weight, {1, 0})));
    PassOptions options;
    options.target.fp8 = true;
    const Result<PassResult> result = LowerQuantised(&s.g, options);
    // Nothing changes if scales vary along k, which block scales do, and row scales do if rows are along k.
    EXPECT_EQ(result->changes, changes);
    for (NodeId id = 0; id < s.g.size() && changes != 0; ++id) {
      const ir::Node& node = s.g.node(id);
      if (node.op != Op::kMatMul) continue;
      const ir::Node& base = s.g.node(s.g.BaseOf(node.inputs[1]));
      EXPECT_EQ(base.dtype, DType::kE4M3);
      const std::span<const uint8_t> bytes = base.As<ir::ConstantAttrs>().data->bytes;
      EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.end()), codes);
      EXPECT_EQ(s.g.ViewOf(node.inputs[1]).steps[0].strides[0], 1);
    }
  }
}

TEST(Fp8Matmuls, ConvolutionsHaveAScaleForEachOutput) {
  Fp8 s;
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {1, 1};
  const NodeId scales = s.b.Floats(DType::kF32, Shape({4, 1, 1, 1}), {0.1, 0.2, 0.3, 0.4});
  const NodeId x = s.Quantised(s.In("x", Shape({2, 3, 5, 5})), DType::kE4M3, 0.25);
  s.Out("y", s.b.Conv(x, s.Scaled(s.Weight(DType::kE4M3, Shape({4, 3, 3, 3})), scales), attrs));
  EXPECT_EQ(s.Run().changes, 1);
  EXPECT_EQ(s.Products(), 1);
}

TEST(Fp8Matmuls, OtherProductsStay) {
  {  // a GPU without FP8 matmuls
    Fp8 s;
    const NodeId x = s.Quantised(s.In("x", Shape({4, 8})), DType::kE4M3, 0.25);
    s.Out("y", s.b.MatMul(x, s.Scaled(s.Weight(DType::kE4M3, Shape({8, 5})), s.b.Scalar(DType::kF32, 2))));
    EXPECT_EQ(s.Run(false).changes, 0);
  }
  {  // one operand is not quantised
    Fp8 s;
    s.Out("y", s.b.MatMul(s.In("x", Shape({4, 8})),
                          s.Scaled(s.Weight(DType::kE4M3, Shape({8, 5})), s.b.Scalar(DType::kF32, 2))));
    EXPECT_EQ(s.Run().changes, 0);
  }
  {  // scales vary along k
    Fp8 s;
    const NodeId x = s.Quantised(s.In("x", Shape({4, 8})), DType::kE4M3, 0.25);
    const NodeId scales = s.b.Floats(DType::kF32, Shape({8, 1}), {1, 2, 3, 4, 5, 6, 7, 8});
    s.Out("y", s.b.MatMul(x, s.Scaled(s.Weight(DType::kE4M3, Shape({8, 5})), scales)));
    EXPECT_EQ(s.Run().changes, 0);
  }
}

// A transposed value is quantised by the kernel that computes it.
TEST(Fp8Matmuls, WhatIsTransposedIsQuantisedBefore) {
  Fp8 s;
  const NodeId made = s.b.MatMul(s.In("u", Shape({1, 2, 3, 4})), s.In("v", Shape({1, 2, 4, 8})));
  const NodeId joined = s.b.Reshape(s.b.Transpose(made, {0, 2, 1, 3}), Shape({3, 16}));
  s.Out("y", s.b.MatMul(s.Quantised(joined, DType::kE4M3, 0.25),
                        s.Scaled(s.Weight(DType::kE4M3, Shape({16, 5})), s.b.Scalar(DType::kF32, 2))));
  EXPECT_EQ(s.Run().changes, 1);
  bool ahead = false;
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    ahead |= !node.dead && node.dtype == DType::kE4M3 && node.op == Op::kPointwise &&
             node.shape == Shape({1, 2, 3, 8});
  }
  EXPECT_TRUE(ahead) << ir::Dump(s.g);
}

TEST(Fp8Matmuls, ManyNumbersOfFp8StaySo) {
  for (const int64_t rows : {8, 800}) {
    SmallGraph s;
    s.b.FoldConstants(false);
    const std::vector<uint8_t> codes(static_cast<size_t>(rows * 16), 0x38);
    const NodeId w = s.b.Constant(ir::ConstantData::Own(DType::kE4M3, Shape({rows, 16}), codes));
    s.Out("y", s.b.Mul(s.In("x", Shape({rows, 16})), s.b.Cast(w, DType::kF32)));
    EXPECT_EQ(ExpectSame(&s, FoldConstants).changes, rows == 8 ? 1 : 0);
  }
}

// Scores of an FP8 matmul that a softmax reads are stored in 16 bits; unscaled sums never are.
TEST(Fp8Matmuls, ScaledSumsAreStoredIn16Bits) {
  Fp8 s;
  const NodeId x = s.Quantised(s.In("x", Shape({4, 64})), DType::kE4M3, 0.25);
  const NodeId y =
      s.b.MatMul(x, s.Scaled(s.Weight(DType::kE4M3, Shape({64, 5})), s.b.Scalar(DType::kF32, 0.001)));
  s.Out("z", s.b.Reduce(ir::ReduceKind::kMax, y, {1}, true));
  s.Run();
  PassOptions options;
  options.precision = DType::kF16;
  ASSERT_TRUE(LowerPrecision(&s.g, options).ok());
  int64_t narrow = 0;
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    if (node.dead || node.dtype != DType::kF16) continue;
    ++narrow;
    EXPECT_EQ(node.op, Op::kPointwise);
    EXPECT_NE(AsPointwise(s.g, node.inputs[0], TapeOp::kMul), nullptr) << ir::Dump(s.g);
  }
  EXPECT_EQ(narrow, 1);
}

// A softmax whose result is rounded to FP8 is no attention, although only casts are between it and its
// matmul.
TEST(Fp8Matmuls, RoundedProbabilitiesAreNoAttention) {
  for (const bool rounded : {false, true}) {
    SmallGraph s;
    const NodeId q = s.In("q", Shape({1, 2, 4, 8})), k = s.In("k", Shape({1, 2, 4, 8})),
                 v = s.In("v", Shape({1, 2, 4, 8}));
    const NodeId scores = s.b.MatMul(q, s.b.Transpose(k, {0, 1, 3, 2}));
    const NodeId e =
        s.b.Unary(TapeOp::kExp, s.b.Sub(scores, s.b.Reduce(ir::ReduceKind::kMax, scores, {3}, true)));
    NodeId p = s.b.Div(e, s.b.Reduce(ir::ReduceKind::kSum, e, {3}, true));
    if (rounded) p = s.b.Cast(s.b.Cast(p, DType::kE4M3), DType::kF32);
    s.Out("y", s.b.MatMul(p, v));
    ExpectSame(&s, RecogniseAttention);
    EXPECT_EQ(s.CountOf(Op::kAttention), rounded ? 0 : 1);
  }
}

}  // namespace
}  // namespace rondo::passes
