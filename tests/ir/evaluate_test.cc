#include "compiler/ir/evaluate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "compiler/ir/builder.h"
#include "core/scalar.h"

namespace rondo::ir {
namespace {

std::shared_ptr<const ConstantData> F32(const Shape& shape, const std::vector<float>& values) {
  std::vector<uint8_t> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return ConstantData::Own(DType::kF32, shape, bytes);
}
std::shared_ptr<const ConstantData> I64(const Shape& shape, const std::vector<int64_t>& values) {
  std::vector<uint8_t> bytes(values.size() * 8);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return ConstantData::Own(DType::kI64, shape, bytes);
}
std::vector<double> Doubles(const ConstantData& data) {
  std::vector<double> out;
  for (int64_t i = 0; i < data.shape.elements(); ++i) {
    out.push_back(IsFloat(data.dtype)
                      ? scalar::Load<double>(data.dtype, data.bytes.data(), i)
                      : static_cast<double>(scalar::Load<int64_t>(data.dtype, data.bytes.data(), i)));
  }
  return out;
}
std::vector<double> Eval(Graph& g, NodeId out, const Values& inputs) {
  g.outputs = {{"out", out}};
  EXPECT_EQ(Validate(g), "");
  Result<Values> result = EvaluateGraph(g, inputs);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? Doubles(*(*result)[0]) : std::vector<double>();
}

TEST(EvaluateTest, BroadcastArithmetic) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({2, 3})), y = b.Input("y", DType::kF32, Shape({3}));
  NodeId out = b.Select(b.Binary(TapeOp::kLess, x, y), b.Add(x, y), b.BinaryScalar(TapeOp::kMul, x, 2));
  EXPECT_EQ(Eval(g, out, {F32(Shape({2, 3}), {1, 2, 3, 4, 5, 6}), F32(Shape({3}), {2, 2, 9})}),
            (std::vector<double>{3, 4, 12, 8, 10, 15}));
}

TEST(EvaluateTest, HalfPrecisionRoundsOncePerNode) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({1}));
  NodeId out = b.Add(b.Cast(x, DType::kBF16), b.Scalar(DType::kBF16, 1));
  EXPECT_EQ(Eval(g, out, {F32(Shape({1}), {1.0f / 512})}), (std::vector<double>{1.0}));
}

TEST(EvaluateTest, ReductionsAndArgs) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({2, 3}));
  Values in = {F32(Shape({2, 3}), {1, 5, 5, -1, 0, -7})};
  EXPECT_EQ(Eval(g, b.Reduce(ReduceKind::kSum, x, {1}, false), in), (std::vector<double>{11, -8}));
  EXPECT_EQ(Eval(g, b.Reduce(ReduceKind::kMax, x, {0}, true), in), (std::vector<double>{1, 5, 5}));
  EXPECT_EQ(Eval(g, b.Reduce(ReduceKind::kArgMax, x, {1}, false), in), (std::vector<double>{1, 1}));
  EXPECT_EQ(Eval(g, b.Reduce(ReduceKind::kArgMax, x, {1}, false, true), in), (std::vector<double>{2, 1}));
  EXPECT_EQ(Eval(g, b.Mean(x, {0, 1}, false), in), (std::vector<double>{0.5}));
}

// Integer overflow wraps, as in kernels. The sanitizers report signed overflow in the evaluator itself.
TEST(EvaluateTest, MatMulOfWholeNumbersWraps) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kI64, Shape({1, 3})), y = b.Input("y", DType::kI64, Shape({3, 1}));
  const int64_t large = int64_t{1} << 62;
  EXPECT_EQ(Eval(g, b.MatMul(x, y), {I64(Shape({1, 3}), {large, large, 5}), I64(Shape({3, 1}), {2, 2, 1})}),
            (std::vector<double>{5}));
}

TEST(EvaluateTest, MatMulBroadcastsBatchesAndVectors) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({2, 1, 2})), w = b.Input("w", DType::kF32, Shape({2, 2}));
  NodeId v = b.Input("v", DType::kF32, Shape({2}));
  Values in = {F32(Shape({2, 1, 2}), {1, 2, 3, 4}), F32(Shape({2, 2}), {1, 2, 3, 4}),
               F32(Shape({2}), {1, 1})};
  EXPECT_EQ(Eval(g, b.MatMul(x, w), in), (std::vector<double>{7, 10, 15, 22}));
  EXPECT_EQ(Eval(g, b.MatMul(x, v), in), (std::vector<double>{3, 7}));
  EXPECT_TRUE(g.node(b.MatMul(v, w)).shape == Shape({2}));
}

TEST(EvaluateTest, GatherByConstantIsASliceAndByInputIsARead) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({3, 2})), i = b.Input("i", DType::kI64, Shape({2}));
  Values in = {F32(Shape({3, 2}), {0, 1, 2, 3, 4, 5}), I64(Shape({2}), {-1, 0})};
  NodeId constant = b.Gather(x, b.I64({2, 1}), 0);
  EXPECT_EQ(g.node(constant).op, Op::kView);
  EXPECT_EQ(Eval(g, constant, in), (std::vector<double>{4, 5, 2, 3}));
  NodeId read = b.Gather(x, i, 0);
  EXPECT_EQ(g.node(read).op, Op::kIndexedRead);
  EXPECT_EQ(Eval(g, read, in), (std::vector<double>{4, 5, 0, 1}));
  EXPECT_EQ(Eval(g, b.Gather(b.Transpose(x, {1, 0}), i, 1), in), (std::vector<double>{4, 0, 5, 1}));
  // Constant indices are 32-bit integers from the start, unless one of them is no element.
  const auto index_of = [&](NodeId gather) { return g.node(g.BaseOf(g.node(gather).inputs[1])).dtype; };
  const NodeId table = b.Gather(x, b.I64({2, -3, -2}), 0);
  EXPECT_EQ(index_of(table), DType::kI32);
  EXPECT_EQ(Eval(g, table, in), (std::vector<double>{4, 5, 0, 1, 2, 3}));
  EXPECT_EQ(index_of(b.Gather(x, b.I64({2, -4, 1}), 0)), DType::kI64);
}

TEST(EvaluateTest, IndexOutOfRangeIsAnError) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({3, 2})), i = b.Input("i", DType::kI64, Shape({1}));
  g.outputs = {{"out", b.Gather(x, i, 0)}};
  Result<Values> r = EvaluateGraph(g, {F32(Shape({3, 2}), {0, 1, 2, 3, 4, 5}), I64(Shape({1}), {3})});
  ASSERT_FALSE(r.ok());
  EXPECT_EQ(r.status().code(), Code::kOutOfRange);
}

TEST(EvaluateTest, LaterUpdatesWinOrCombine) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({3})), u = b.Input("u", DType::kF32, Shape({2}));
  NodeId i = b.Input("i", DType::kI64, Shape({2}));
  IndexedAttrs attrs;
  attrs.map = DenseView(Shape({2}));
  attrs.map.steps[0].strides[0] = 0;
  attrs.dims = {{1, 3, true}};
  Values in = {F32(Shape({3}), {1, 1, 1}), F32(Shape({2}), {5, 7}), I64(Shape({2}), {1, 1})};
  EXPECT_EQ(Eval(g, b.IndexedWrite(x, u, {i}, attrs), in), (std::vector<double>{1, 7, 1}));
  attrs.combine = ScatterCombine::kAdd;
  EXPECT_EQ(Eval(g, b.IndexedWrite(x, u, {i}, attrs), in), (std::vector<double>{1, 13, 1}));
}

TEST(EvaluateTest, PaddingAndConcat) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({1, 2}));
  Values in = {F32(Shape({1, 2}), {1, 2})};
  NodeId padded = b.PadConstant(x, b.Scalar(DType::kF32, 9), {0, 1}, {1, 0});
  EXPECT_EQ(Eval(g, padded, in), (std::vector<double>{9, 1, 2, 9, 9, 9}));
  EXPECT_EQ(Eval(g, b.Concat({x, b.Unary(TapeOp::kNeg, x)}, 1), in), (std::vector<double>{1, 2, -1, -2}));
}

TEST(EvaluateTest, ConvolutionAndPools) {
  Graph g;
  Builder b(&g);
  NodeId x = b.Input("x", DType::kF32, Shape({1, 1, 3})), w = b.Input("w", DType::kF32, Shape({1, 1, 2}));
  Values in = {F32(Shape({1, 1, 3}), {1, 2, 3}), F32(Shape({1, 1, 2}), {10, 1})};
  EXPECT_EQ(Eval(g, b.Conv(x, w, {{1}, {1}, {1}, {0}, 1}), in), (std::vector<double>{1, 12, 23}));
  EXPECT_EQ(Eval(g, b.Pool(x, {Combine::kMean, {2}, {1}, {1}, {1}, {0}}), in),
            (std::vector<double>{1, 1.5, 2.5}));
  EXPECT_EQ(Eval(g, b.Pool(x, {Combine::kMax, {3}, {2}, {1}, {1}, {1}}), in), (std::vector<double>{2, 3}));
}

TEST(EvaluateTest, AttentionWithGroupsAndLimit) {
  Graph g;
  Builder b(&g);
  NodeId q = b.Input("q", DType::kF32, Shape({1, 2, 1, 1})),
         k = b.Input("k", DType::kF32, Shape({1, 1, 3, 1}));
  NodeId limit = b.Input("limit", DType::kI64, Shape({1}));
  Values in = {F32(Shape({1, 2, 1, 1}), {0, 1}), F32(Shape({1, 1, 3, 1}), {0, std::log(3.0f), 50}),
               I64(Shape({1}), {2})};
  std::vector<double> out = Eval(g, b.Attention(q, k, k, kNoNode, limit, {}), in);
  EXPECT_NEAR(out[0], std::log(3.0) / 2, 1e-6);
  EXPECT_NEAR(out[1], std::log(3.0) * 3 / 4, 1e-6);
}

TEST(BuilderTest, SmallConstantsFoldBeforeTheyAreRepeated) {
  Graph g;
  Builder b(&g);
  NodeId a = b.Expand(b.Scalar(DType::kF32, 2), Shape({1024, 1024}));
  NodeId out = b.Add(a, b.Scalar(DType::kF32, 3));
  ASSERT_EQ(g.node(out).op, Op::kView);
  EXPECT_EQ(g.node(g.BaseOf(out)).op, Op::kConstant);
  EXPECT_EQ(g.node(g.BaseOf(out)).shape.elements(), 1);
}

TEST(BuilderTest, SyntheticConstantsAreNeverRead) {
  Graph g;
  Builder b(&g);
  auto data = std::make_shared<ConstantData>();
  data->shape = Shape({4});
  data->synthetic = true;
  data->synthetic_scale = 1;
  NodeId w = b.Constant(data);
  EXPECT_EQ(g.node(b.Unary(TapeOp::kNeg, w)).op, Op::kPointwise);
  std::vector<double> values;
  EXPECT_FALSE(b.ConstantFloats(w, &values));
  EXPECT_EQ(Eval(g, w, {}).size(), 4u);
}

TEST(BuilderTest, ConstantViewsAreReadThroughTheView) {
  Graph g;
  Builder b(&g);
  std::vector<int64_t> values;
  ASSERT_TRUE(b.ConstantInts(b.Slice(b.I64({1, 2, 3}), 0, 2, -2, 2), &values));
  EXPECT_EQ(values, (std::vector<int64_t>{3, 1}));
}

}  // namespace
}  // namespace rondo::ir
