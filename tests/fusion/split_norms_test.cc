// Norms that split_reductions has split: each kernel reads the image once, as columns, and only the last
// writes one.
#include <gtest/gtest.h>

#include "compiler/fusion/fuse.h"
#include "compiler/ir/builder.h"
#include "compiler/passes/split_reductions.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

using ir::Builder;
using ir::NodeId;

// Between convolutions: a norm over groups of `channels` channels of 16, and SiLU.
ir::Graph GroupNorm(int64_t channels) {
  ir::Graph graph;
  Builder b(&graph);
  const ir::ConvAttrs attrs{{1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
  const Shape image{1, 16, 16, 24}, kernel{16, 16, 3, 3};
  const std::vector<double> numbers(16 * 16 * 9, 0.0625);
  const NodeId made = b.Conv(b.Input("x", DType::kF16, image), b.Floats(DType::kF16, kernel, numbers), attrs);
  const NodeId rows = b.Reshape(b.Cast(made, DType::kF32), Shape{1, 16 / channels, channels * 16 * 24});
  const NodeId apart = b.Sub(rows, b.Mean(rows, {2}, true));
  const NodeId variance = b.Mean(b.Mul(apart, apart), {2}, true);
  const NodeId inverse = b.Unary(TapeOp::kRsqrt, b.BinaryScalar(TapeOp::kAdd, variance, 1e-5));
  const NodeId y = b.Reshape(b.Mul(apart, inverse), image);
  const NodeId active = b.Cast(b.Mul(y, b.Unary(TapeOp::kSigmoid, y)), DType::kF16);
  graph.outputs.push_back({"y", b.Conv(active, b.Floats(DType::kF16, kernel, numbers), attrs)});
  return graph;
}

int64_t Elements(const Part& part, const Operand& operand) {
  int64_t elements = 1;
  for (size_t l = 0; l < part.loops.size(); ++l)
    if (operand.strides[l] != 0) elements *= part.loops[l];
  return elements;
}

TEST(SplitNorms, EachKernelReadsTheImageAsColumns) {
  for (const int64_t channels : {1, 2, 4, 16}) {
    SCOPED_TRACE(channels);
    ir::Graph graph = GroupNorm(channels);
    passes::SplitOptions split;
    split.processors = 4;
    split.row_bytes = 64;
    split.least_slice = 32;
    split.most_slice = 64;
    split.worth = 0;
    EXPECT_EQ(passes::SplitReductions(&graph, split)->changes, 2);
    FuseOptions options;
    options.target = GpuTraits();
    const LoweredProgram program = ExpectFusionKeepsMeaning(graph, 1, options);
    int reductions = 0, columns = 0, stored = 0, maps = 0, convolutions = 0;
    for (const LoweredOp& op : program.ops) {
      for (const Part& part : op.kernel.parts) {
        maps += part.skeleton == Skeleton::kMap;
        convolutions += part.skeleton == Skeleton::kConvolution;
        if (part.skeleton != Skeleton::kReduction) continue;
        ++reductions;
        for (const Operand& operand : part.operands) {
          columns += operand.dtype == DType::kF16 && operand.strides[part.outer - 1u] == 1;
          stored += operand.mode == Mode::kWrite && Elements(part, operand) == 16 * 16 * 24;
        }
      }
    }
    EXPECT_EQ(convolutions, 2);
    EXPECT_EQ(reductions, 4) << "sums of slices, of all; squares of slices, of all";
    EXPECT_EQ(columns, 2);
    EXPECT_EQ(stored, 0);
    EXPECT_EQ(maps, 1) << "what is normalised is made active, and stored as f16";
  }
}

}  // namespace
}  // namespace rondo
