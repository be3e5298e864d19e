// Images between convolutions of 8-bit integers that are quantised by their range at run time.
#include <gtest/gtest.h>

#include "compiler/ir/builder.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

using ir::NodeId;

class Ranges : public testing::Test {
 protected:
  Ranges() : b_(&graph_) { options_.target = GpuTraits(); }

  NodeId Convolved(NodeId x) {
    ir::ConvAttrs attrs;
    attrs.strides = attrs.dilations = {1, 1};
    attrs.pads_begin = attrs.pads_end = {0, 0};
    const NodeId weight = b_.Ints(DType::kI8, Shape{8, 8, 1, 1}, std::vector<int64_t>(64, 2));
    return b_.BinaryScalar(TapeOp::kSub, b_.Cast(b_.Conv(x, weight, attrs), DType::kF32), 3);
  }
  // The initial values of extremes, which a kernel writes; they are no constant.
  NodeId Starts(const std::vector<double>& values) {
    ir::Node starts;
    starts.op = ir::Op::kPointwise;
    starts.shape = Shape{static_cast<int64_t>(values.size())};
    starts.attrs = ir::PointwiseAttrs{TapeOp::kCast, 0};
    starts.inputs = {b_.Floats(DType::kF32, starts.shape, values)};
    return graph_.Add(starts);
  }
  // Combines `cell`, a single number, with all elements of `x`.
  NodeId Combined(NodeId cell, NodeId x, ir::ScatterCombine combine) {
    ir::IndexedAttrs attrs;
    attrs.map = ir::DenseView(b_.shape(x));
    for (int64_t& stride : attrs.map.steps[0].strides) stride = 0;
    attrs.combine = combine;
    return b_.IndexedWrite(cell, x, {}, attrs);
  }

  ir::Graph graph_;
  ir::Builder b_;
  FuseOptions options_;
};

// The matmul that computes an image combines the image's extremes. The kernel that quantises the image reads
// these and finds none itself. One kernel before all writes their initial values.
TEST_F(Ranges, AreCombinedByTheKernelThatMakesThePicture) {
  const NodeId picture = Convolved(b_.Input("x", DType::kU8, Shape{1, 8, 6, 5}));
  const NodeId cells = Starts({0, 0});
  const auto extreme = [&](int64_t cell, ir::ScatterCombine combine) {
    return b_.Reshape(Combined(b_.Slice(cells, 0, cell, 1, 1), picture, combine), Shape{});
  };
  const NodeId max = extreme(0, ir::ScatterCombine::kMax), min = extreme(1, ir::ScatterCombine::kMin);
  const NodeId scale = b_.BinaryScalar(TapeOp::kDiv, b_.Sub(max, min), 255);
  const NodeId numbers = b_.Cast(b_.Unary(TapeOp::kRound, b_.Div(b_.Sub(picture, min), scale)), DType::kU8);
  graph_.outputs.push_back({"y", b_.Mul(Convolved(numbers), scale)});
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1, options_);
  ASSERT_EQ(program.ops.size(), 5u);  // one more kernel for the scale, which two kernels read
  int combined = 0;
  for (const LoweredOp& op : program.ops) {
    for (const TapeInst& inst : op.kernel.parts[0].epilogue) combined += Combines(inst.op);
    EXPECT_FALSE(op.kernel.parts[0].sequential);
  }
  EXPECT_EQ(combined, 2);
}

// An elementwise image in another order than its input is a map, which combines extremes as well.
TEST_F(Ranges, AMapCombinesWhatItMakes) {
  const NodeId x = b_.Input("x", DType::kF32, Shape{6, 40});
  const NodeId picture = b_.BinaryScalar(TapeOp::kMul, b_.Transpose(x, {1, 0}), 3);
  const NodeId least = Combined(Starts({1}), picture, ir::ScatterCombine::kMin);
  graph_.outputs.push_back({"y", b_.Div(picture, b_.Reshape(least, Shape{}))});
  graph_.outputs.push_back({"picture", picture});
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1, options_);
  EXPECT_EQ(program.ops.size(), 3u);
}

// So does a matmul, for values computed from its result, which it stores besides the result.
TEST_F(Ranges, AMatmulCombinesWhatIsMadeOfItsResult) {
  const NodeId product =
      b_.MatMul(b_.Input("x", DType::kF16, Shape{6, 8}), b_.Input("w", DType::kF16, Shape{8, 40}));
  const NodeId infinite = b_.Cast(b_.Cast(b_.Unary(TapeOp::kIsInf, product, 3), DType::kI64), DType::kF32);
  const NodeId any = Combined(Starts({0}), infinite, ir::ScatterCombine::kMax);
  graph_.outputs.push_back({"y", b_.Mul(b_.Cast(product, DType::kF32), b_.Reshape(any, Shape{}))});
  graph_.outputs.push_back({"product", product});
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1, options_);
  ASSERT_EQ(program.ops.size(), 3u) << "the start, the matmul, the product";
}

// Here after it is multiplied by another tensor.
TEST_F(Ranges, AMatmulCombinesItsResultTimesAnotherTensor) {
  const NodeId product =
      b_.MatMul(b_.Input("x", DType::kF32, Shape{6, 8}), b_.Input("w", DType::kF32, Shape{8, 40}));
  const NodeId scaled = b_.Mul(product, b_.Input("z", DType::kF32, Shape{6, 40}));
  const NodeId most = Combined(Starts({0}), scaled, ir::ScatterCombine::kMax);
  graph_.outputs.push_back({"y", b_.Mul(product, b_.Reshape(most, Shape{}))});
  graph_.outputs.push_back({"product", product});
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1, options_);
  ASSERT_EQ(program.ops.size(), 3u) << "the start, the matmul, the product";
}

TEST_F(Ranges, BothExtremesOfWhatNoKernelMakesAreFoundByOne) {
  const NodeId x = b_.Input("x", DType::kF32, Shape{6, 40}), cells = Starts({0, 9});
  for (const NodeId of : {x, b_.Slice(x, 1, 0, 1, 30)}) {
    const NodeId most = Combined(b_.Slice(cells, 0, 0, 1, 1), of, ir::ScatterCombine::kMax),
                 least = Combined(b_.Slice(cells, 0, 1, 1, 1), of, ir::ScatterCombine::kMin);
    graph_.outputs = {{"y", b_.Sub(b_.Reshape(most, Shape{}), b_.Reshape(least, Shape{}))}};
    EXPECT_EQ(ExpectFusionKeepsMeaning(graph_, 1, options_).ops.size(), 3u)
        << "the start, the extremes, the difference";
  }
}

// A reduction's kernel combines its rows' results and its elements, which it stores besides.
TEST_F(Ranges, AReductionCombinesWhatItMakes) {
  const NodeId x = b_.Input("x", DType::kF32, Shape{6, 40});
  const NodeId sums = b_.Reduce(ir::ReduceKind::kSum, x, {1}, true), centred = b_.Sub(x, sums);
  const NodeId cells = Starts({0, 9});
  const NodeId most = Combined(b_.Slice(cells, 0, 0, 1, 1), centred, ir::ScatterCombine::kMax);
  const NodeId least =
      Combined(b_.Slice(cells, 0, 1, 1, 1), b_.Unary(TapeOp::kExp, sums), ir::ScatterCombine::kMin);
  graph_.outputs.push_back(
      {"y", b_.Mul(b_.Div(centred, b_.Reshape(most, Shape{})), b_.Reshape(least, Shape{}))});
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 1, options_);
  ASSERT_EQ(program.ops.size(), 3u) << "the start, the reduction, the quotient";
}

// What follows from a combined row is another kernel's, even if there is one row.
TEST_F(Ranges, AReductionDoesNotReadWhatItCombines) {
  const NodeId x = b_.Input("x", DType::kF32, Shape{1, 40});
  const NodeId sum = b_.Reduce(ir::ReduceKind::kSum, x, {1}, true);
  const NodeId most = Combined(Starts({0}), sum, ir::ScatterCombine::kMax);
  graph_.outputs.push_back({"y", b_.Sub(x, b_.Mul(b_.Reshape(most, Shape{1, 1}), sum))});
  ExpectFusionKeepsMeaning(graph_, 1, options_);
}

}  // namespace
}  // namespace rondo
