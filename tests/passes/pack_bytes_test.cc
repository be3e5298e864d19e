// pack_bytes: weights that a model dequantises from 8 bits stay in 8 bits, and their readers get the same
// numbers.
#include "compiler/passes/match.h"
#include "compiler/quantise/quantise.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;

// A weight [k, n], or a transposed [n, k], for a DequantizeLinear.
struct BytesCase {
  DType codes = DType::kI8;
  int64_t block = 0;    // block length along k; 0: all of k
  bool columns = true;  // a scale for each column
  bool zeros = false;
  bool transposed = false;
  DType dtype = DType::kF32;
  double more = 0;  // added to integer zero points
};
constexpr int64_t kK = 96, kN = 48;

NodeId RepeatedInBlocks(ir::Builder& b, NodeId x, const BytesCase& c) {
  if (c.block == 0) return x;
  // Repeats each element of [.., blocks, ..] along k by the block's length.
  const Shape shape = b.shape(x);
  const int axis = c.transposed ? 1 : 0;
  Shape wide = shape, flat = shape;
  wide.rank = 3;
  for (int d = 2; d > axis; --d) wide[d] = shape[d - 1];
  wide[axis + 1] = 1;
  x = b.Reshape(x, wide);
  wide[axis + 1] = c.block;
  flat[axis] = kK;
  return b.Reshape(b.Expand(x, wide), flat);
}

SmallGraph Dequantised(const BytesCase& c, int64_t rows) {
  SmallGraph s;
  const Shape shape = c.transposed ? Shape{kN, kK} : Shape{kK, kN};
  const int64_t blocks = c.block == 0 ? 1 : kK / c.block, columns = c.columns ? kN : 1;
  const Shape of_scales = c.transposed ? Shape{columns, blocks} : Shape{blocks, columns};
  std::vector<int64_t> codes;
  std::vector<double> scales, zeros;
  const int64_t least = c.codes == DType::kI8 ? -128 : 0;
  for (int64_t i = 0; i < shape.elements(); ++i) codes.push_back(least + i * 37 % 256);
  for (int64_t i = 0; i < of_scales.elements(); ++i) {
    scales.push_back(0.25 + static_cast<double>(i % 5) / 8);
    zeros.push_back(static_cast<double>(least + 100 + i % 7) + c.more);
  }
  const NodeId x = s.In("x", {rows, kK}, c.dtype);
  s.b.FoldConstants(false);
  NodeId w = s.b.Cast(s.b.Ints(c.codes, shape, codes), DType::kF32);
  if (c.zeros) w = s.b.Sub(w, RepeatedInBlocks(s.b, s.b.Floats(DType::kF32, of_scales, zeros), c));
  w = s.b.Cast(s.b.Mul(w, RepeatedInBlocks(s.b, s.b.Floats(DType::kF32, of_scales, scales), c)), c.dtype);
  if (c.transposed) w = s.b.Transpose(w, {1, 0});
  s.Out("y", s.b.MatMul(x, w));
  return s;
}

const ir::PackedAttrs* BytesIn(const ir::Graph& g) {
  for (NodeId id = 0; id < g.size(); ++id) {
    if (!g.node(id).dead && std::holds_alternative<ir::PackedAttrs>(g.node(id).attrs))
      return &g.node(id).As<ir::PackedAttrs>();
  }
  return nullptr;
}

std::vector<float> Numbers(const SmallGraph& s) {
  const Result<ir::Values> values = ir::EvaluateGraph(s.g, RandomInputs(s.g));
  EXPECT_TRUE(values.ok()) << values.status().message();
  std::vector<float> out;
  const ir::ConstantData& data = *(*values)[0];
  for (int64_t i = 0; i < data.shape.elements(); ++i)
    out.push_back(scalar::Load<float>(data.dtype, data.bytes.data(), i));
  return out;
}

PassOptions OnHost() {
  PassOptions options;
  options.target = HostTraits();
  return options;
}

// For any number of rows, so that programs with many and with few rows share one weight.
TEST(PackBytes, DequantisedWeightsOfMatmulsKeepTheirBytes) {
  const BytesCase cases[] = {{},
                             {DType::kU8},
                             {DType::kU8, 0, false, true},
                             {DType::kI8, 0, true, true, true},
                             {DType::kI8, 32, true, false, true},
                             {DType::kU8, 16, true, true},
                             {DType::kU8, 32, true, true, true, DType::kF16},
                             {DType::kI8, 0, true, false, false, DType::kBF16}};
  for (const BytesCase& c : cases) {
    for (const int64_t rows : {1, 300}) {
      SmallGraph s = Dequantised(c, rows);
      const std::vector<float> before = Numbers(s);
      EXPECT_EQ(LowerQuantised(&s.g, OnHost())->changes, 1) << ir::Dump(s.g);
      ASSERT_TRUE(FoldConstants(&s.g, OnHost()).ok());
      ASSERT_TRUE(PackWeights(&s.g, OnHost()).ok());
      EXPECT_EQ(ir::Validate(s.g), "") << ir::Dump(s.g);
      const ir::PackedAttrs* packed = BytesIn(s.g);
      ASSERT_NE(packed, nullptr) << ir::Dump(s.g);
      EXPECT_EQ(packed->weights.type, PackedType::kU8);
      EXPECT_EQ(packed->weights.block, c.block == 0 ? kK : c.block);
      EXPECT_EQ(packed->has_zeros, c.zeros && (c.columns || c.block != 0));
      const std::vector<float> after = Numbers(s);
      const double tolerance = c.dtype == DType::kF32 ? 1e-5 : 2e-2;
      for (size_t i = 0; i < before.size(); ++i)
        ASSERT_NEAR(after[i], before[i], tolerance * (500 + std::abs(before[i]))) << i;
    }
  }
}

// Block lengths that packed weights lack, other readers, and other targets.
TEST(PackBytes, WhatElseIsWidenedStaysAsItIs) {
  SmallGraph odd = Dequantised({DType::kI8, 8}, 1);
  EXPECT_EQ(LowerQuantised(&odd.g, OnHost())->changes, 0);
  // Zero points that are no integers or beyond the codes: one for all, and one for each block.
  for (const double more : {0.5, -300.0}) {
    for (const bool columns : {false, true}) {
      SmallGraph between = Dequantised({DType::kU8, 0, columns, true, false, DType::kF32, more}, 1);
      EXPECT_EQ(LowerQuantised(&between.g, OnHost())->changes, 0) << more;
    }
  }
  SmallGraph gpu = Dequantised({}, 1);
  EXPECT_EQ(LowerQuantised(&gpu.g, {})->changes, 0);
  SmallGraph shown = Dequantised({}, 1);
  NodeId weight = ir::kNoNode;
  for (NodeId id = 0; id < shown.g.size(); ++id) {
    if (AsPointwise(shown.g, id, TapeOp::kMul) != nullptr) weight = id;
  }
  shown.Out("w", weight);
  EXPECT_EQ(LowerQuantised(&shown.g, OnHost())->changes, 0);
}

}  // namespace
}  // namespace rondo::passes
