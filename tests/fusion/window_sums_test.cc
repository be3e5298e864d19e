// Sums of a convolution's input, computed with the convolution.
#include <gtest/gtest.h>

#include "compiler/ir/builder.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

// A zero point of the weights needs sums of the input. The matmul computes them as it reads its input, so
// each of two such convolutions whose results are added is one kernel.
TEST(WindowSums, AreAddedUpBesideTheProduct) {
  ir::Graph graph;
  ir::Builder b(&graph);
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {1, 1};
  attrs.absent = 3;
  const Shape picture{1, 4, 6, 5}, kernel{8, 4, 3, 3};
  const ir::NodeId ones = b.Expand(b.Scalar(DType::kI8, 1), kernel);
  const auto product = [&](ir::NodeId x) {
    const ir::NodeId weight = b.Ints(DType::kI8, kernel, std::vector<int64_t>(288, 2));
    const ir::NodeId y =
        b.Sub(b.Conv(x, weight, attrs), b.BinaryScalar(TapeOp::kMul, b.Conv(x, ones, attrs), 7));
    return b.BinaryScalar(TapeOp::kMul, b.Cast(y, DType::kF32), 0.25);
  };
  const ir::NodeId left = b.Input("a", DType::kU8, picture), right = b.Input("b", DType::kU8, picture);
  graph.outputs.push_back({"y", b.Add(product(left), product(right))});
  LoweredProgram program = ExpectFusionKeepsMeaning(graph, 1);
  ASSERT_EQ(program.ops.size(), 2u);
  for (const LoweredOp& op : program.ops) EXPECT_EQ(op.kernel.parts[0].rhs.size(), 2u);
}

}  // namespace
}  // namespace rondo
