// The layouts on GPUs of the operands of convolutions and matmuls: channels last, and rows along memory.
#include <gtest/gtest.h>

#include "compiler/fusion/fuse.h"
#include "compiler/ir/builder.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

using ir::Builder;
using ir::Graph;
using ir::NodeId;

// A model's input has its own order. If many windows read it, they read one copy with channels last, which
// serves all convolutions that read the input.
TEST(GpuLayouts, ConvolutionsReadACopyOfAnInputThatHasItsChannelsLast) {
  for (const int64_t side : {6, 72}) {
    Graph graph;
    Builder b(&graph);
    const Shape kernel{16, 8, 3, 3};
    ir::ConvAttrs attrs;
    attrs.strides = attrs.dilations = {1, 1};
    attrs.pads_begin = attrs.pads_end = {1, 1};
    attrs.groups = 2;
    const NodeId x = b.Input("x", DType::kF16, Shape{1, 16, side, side});
    for (const char* name : {"y", "z"}) {
      std::vector<double> numbers(static_cast<size_t>(kernel.elements()), name[0] == 'y' ? 0.125 : 0.25);
      const NodeId weight = b.Floats(DType::kF16, kernel, numbers);
      graph.outputs.push_back({name, b.Conv(x, weight, attrs)});
    }
    FuseOptions options;
    options.target = GpuTraits();
    int copies = 0, read_as_vectors = 0;
    for (const LoweredOp& op : ExpectFusionKeepsMeaning(graph, 1, options).ops) {
      for (const Part& part : op.kernel.parts) {
        copies += part.skeleton == Skeleton::kMap;
        const bool convolves = part.skeleton == Skeleton::kConvolution;
        read_as_vectors += convolves && part.operands[part.lhs].strides[part.loops.size() - 3] == 1;
      }
    }
    EXPECT_EQ(copies, side == 72 ? 1 : 0);
    EXPECT_EQ(read_as_vectors, side == 72 ? 2 : 0);
  }
}

TEST(GpuLayouts, WhatANormWritesWithItsChannelsLastIsReadSoByAConvolution) {
  const Shape kernel{16, 16, 3, 3};
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {1, 1};
  Graph graph;
  Builder b(&graph);
  const NodeId x = b.Input("x", DType::kF16, Shape{1, 6, 6, 16});
  const NodeId e = b.Unary(TapeOp::kExp, b.Sub(x, b.Reduce(ir::ReduceKind::kMax, x, {3}, true)));
  const NodeId norm = b.Div(e, b.Reduce(ir::ReduceKind::kSum, e, {3}, true));
  const std::vector<double> numbers(static_cast<size_t>(kernel.elements()), 0.125);
  const NodeId weight = b.Floats(DType::kF16, kernel, numbers);
  graph.outputs.push_back({"y", b.Conv(b.Transpose(norm, {0, 3, 1, 2}), weight, attrs)});
  FuseOptions options;
  options.target = GpuTraits();
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph, 1, options);
  ASSERT_EQ(program.ops.size(), 2u);
  const Part& part = program.ops[1].kernel.parts[0];
  ASSERT_EQ(part.skeleton, Skeleton::kConvolution);
  EXPECT_EQ(part.operands[part.lhs].strides[part.loops.size() - 3], 1);
}

// The same for an image that repeats another's pixels, which plain strides cannot read.
TEST(GpuLayouts, ConvolutionsReadAnEnlargedPictureWithItsChannelsLast) {
  Graph graph;
  Builder b(&graph);
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {1, 1};
  const NodeId weight = b.Floats(DType::kF16, Shape{16, 16, 3, 3}, std::vector<double>(16 * 16 * 9, 0.125));
  NodeId x = b.Transpose(
      b.MatMul(b.Input("x", DType::kF16, Shape{1, 36 * 36, 8}), b.Input("w", DType::kF16, Shape{1, 8, 16})),
      {0, 2, 1});
  x = b.Expand(b.Reshape(x, Shape{1, 16, 36, 1, 36, 1}), Shape{1, 16, 36, 2, 36, 2});
  graph.outputs.push_back({"y", b.Conv(b.Reshape(x, Shape{1, 16, 72, 72}), weight, attrs)});
  FuseOptions options;
  options.target = GpuTraits();
  int convolutions = 0;
  for (const LoweredOp& op : ExpectFusionKeepsMeaning(graph, 1, options).ops) {
    const Part& part = op.kernel.parts[0];
    if (part.skeleton != Skeleton::kConvolution) continue;
    ++convolutions;
    EXPECT_EQ(part.operands[part.lhs].strides[part.loops.size() - 3], 1);
  }
  EXPECT_EQ(convolutions, 1);
}

// An image has its channels last if several readers each read some of the channels.
TEST(GpuLayouts, PicturesThatAreSplitKeepTheirChannelsLast) {
  Graph graph;
  Builder b(&graph);
  const NodeId pixels =
      b.MatMul(b.Input("x", DType::kF16, Shape{1, 100, 8}), b.Input("w", DType::kF16, Shape{1, 8, 32}));
  const NodeId picture =
      b.Unary(TapeOp::kTanh, b.Reshape(b.Transpose(pixels, {0, 2, 1}), Shape{1, 32, 10, 10}));
  const ir::ConvAttrs attrs = {{1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const NodeId weight = b.Floats(DType::kF16, Shape{16, 16, 3, 3}, std::vector<double>(16 * 16 * 9, 0.0625));
  const NodeId half = b.Conv(b.Slice(picture, 1, 0, 1, 16), weight, attrs);
  const NodeId both = b.Concat({half, b.Slice(picture, 1, 16, 1, 16)}, 1);
  graph.outputs.push_back({"y", b.Pool(both, {Combine::kMax, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}})});
  FuseOptions options;
  options.target = GpuTraits();
  for (const LoweredOp& op : ExpectFusionKeepsMeaning(graph, 1, options).ops) {
    const Part& part = op.kernel.parts[0];
    const bool matmul = part.skeleton == Skeleton::kMatMul, pool = part.combine != Combine::kProduct;
    if (matmul) {
      EXPECT_EQ(part.operands.back().strides[part.outer + part.m], 1) << "columns are channels";
    } else if (part.skeleton == Skeleton::kConvolution && !pool) {
      EXPECT_EQ(part.operands[part.lhs].strides[part.loops.size() - 3], 1);
    }
  }
}

// Matmuls read rows along memory: an image that is read only as a row keeps its own order; if windows read it
// as well, there is a copy in that order.
TEST(GpuLayouts, MatmulsReadPicturesAsRows) {
  for (const bool alone : {true, false}) {
    Graph graph;
    Builder b(&graph);
    ir::ConvAttrs attrs;
    attrs.strides = attrs.dilations = {1, 1};
    attrs.pads_begin = attrs.pads_end = {1, 1};
    const auto weight = [&](const Shape& shape) {
      return b.Floats(DType::kF16, shape, std::vector<double>(static_cast<size_t>(shape.elements()), 0.125));
    };
    const NodeId x = b.Input("x", DType::kF16, Shape{1, 16, 6, 6});
    const NodeId picture = b.Unary(TapeOp::kTanh, b.Conv(x, weight(Shape{16, 16, 3, 3}), attrs));
    const NodeId columns = b.Transpose(weight(Shape{5, 576}), {1, 0});
    graph.outputs.push_back({"y", b.MatMul(b.Reshape(picture, Shape{1, 576}), columns)});
    const ir::PoolAttrs windows = {Combine::kMax, {2, 2}, {2, 2}, {1, 1}, {0, 0}, {0, 0}};
    if (!alone) graph.outputs.push_back({"z", b.Pool(picture, windows)});
    FuseOptions options;
    options.target = GpuTraits();
    int matmuls = 0;
    for (const LoweredOp& op : ExpectFusionKeepsMeaning(graph, 1, options).ops) {
      const Part& part = op.kernel.parts[0];
      if (part.skeleton != Skeleton::kMatMul) continue;
      ++matmuls;
      EXPECT_EQ(part.reduced, 1) << alone;
    }
    EXPECT_EQ(matmuls, 1);
  }
}

// A norm of tokens that are mixed with one another, or averaged: it writes rows as it reads them.
TEST(GpuLayouts, NormsWriteTheirRowsAlongMemory) {
  for (const bool mixed : {true, false}) {
    Graph graph;
    Builder b(&graph);
    const NodeId x = b.Input("x", DType::kF16, Shape{2, 12, 16});
    const NodeId e = b.Unary(TapeOp::kExp, b.Sub(x, b.Reduce(ir::ReduceKind::kMax, x, {2}, true)));
    const NodeId norm = b.Div(e, b.Reduce(ir::ReduceKind::kSum, e, {2}, true));
    const NodeId across = b.Transpose(norm, {0, 2, 1});
    const NodeId weight = b.Floats(DType::kF16, Shape{12, 8}, std::vector<double>(12 * 8, 0.125));
    graph.outputs.push_back(
        {"y", mixed ? b.MatMul(across, weight) : b.Reduce(ir::ReduceKind::kSum, across, {2}, false)});
    FuseOptions options;
    options.target = GpuTraits();
    const LoweredProgram program = ExpectFusionKeepsMeaning(graph, 1, options);
    ASSERT_EQ(program.ops.size(), 2u);
    const Part& part = program.ops[0].kernel.parts[0];
    EXPECT_EQ(part.operands.back().strides.back(), 1);
  }
}

// Convolutions of one pixel are matmuls, each image's pixels by its channels. What lies between them has its
// channels last, whoever else reads it.
TEST(GpuLayouts, PicturesBetweenMatmulsOfPixelsHaveTheirChannelsLast) {
  const auto floats = [](Builder* b, const Shape& shape) {
    return b->Floats(DType::kF16, shape, std::vector<double>(static_cast<size_t>(shape.elements()), 0.125));
  };
  Graph graph;
  Builder b(&graph);
  const NodeId pixels = b.MatMul(b.Input("x", DType::kF16, Shape{2, 9, 8}), floats(&b, Shape{8, 16}));
  const NodeId sum =
      b.Add(b.Reshape(b.Transpose(pixels, {0, 2, 1}), Shape{2, 16, 3, 3}), floats(&b, Shape{1, 16, 1, 1}));
  const NodeId rows = b.Reshape(sum, Shape{2, 16, 9});
  graph.outputs.push_back({"y", b.MatMul(floats(&b, Shape{2, 5, 16}), rows)});
  graph.outputs.push_back({"z", b.MatMul(b.Transpose(rows, {0, 2, 1}), floats(&b, Shape{16, 8}))});
  FuseOptions options;
  options.target = GpuTraits();
  const LoweredProgram program = ExpectFusionKeepsMeaning(graph, 1, options);
  const Part& part = program.ops[0].kernel.parts[0];
  ASSERT_EQ(part.skeleton, Skeleton::kMatMul);
  for (const Operand& operand : part.operands) {
    if (operand.mode == Mode::kRead) continue;
    EXPECT_EQ(operand.strides[part.outer + part.m], 1) << "columns are channels";
  }
}

// x * sigmoid(x) of an x that others read as well: the matmul reads the product, not x and the sigmoid.
TEST(GpuLayouts, MatmulsReadOneValueWhereAMapComputesTheExpensivePart) {
  Graph graph;
  Builder b(&graph);
  const NodeId x = b.Unary(TapeOp::kTanh, b.Input("x", DType::kF16, Shape{64, 32}));
  const NodeId weight = b.Floats(DType::kF16, Shape{32, 16}, std::vector<double>(32 * 16, 0.125));
  graph.outputs.push_back({"x", x});
  graph.outputs.push_back({"y", b.MatMul(b.Mul(x, b.Unary(TapeOp::kSigmoid, x)), weight)});
  FuseOptions options;
  options.target = GpuTraits();
  for (const LoweredOp& op : ExpectFusionKeepsMeaning(graph, 1, options).ops) {
    const Part& part = op.kernel.parts[0];
    EXPECT_TRUE(part.skeleton != Skeleton::kMatMul || part.operands.size() == 3);
  }
}

}  // namespace
}  // namespace rondo
