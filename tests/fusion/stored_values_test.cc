// Values in memory between kernels: stored in 16 bits if these hold them, and in an element order that lets a
// sum be written over one of its summands.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compiler/fusion/fuse.h"
#include "compiler/ir/builder.h"
#include "tests/fusion/keeps_meaning.h"

namespace rondo {
namespace {

using ir::NodeId;

class StoredValues : public testing::Test {
 protected:
  StoredValues() : b_(&graph_) {}
  NodeId Input(const Shape& shape) {
    return b_.Input("x" + std::to_string(graph_.inputs.size()), DType::kF16, shape);
  }
  NodeId Weight(const Shape& shape) {
    auto data = std::make_shared<ir::ConstantData>();
    data->dtype = DType::kF16;
    data->shape = shape;
    data->synthetic = true;
    data->synthetic_key = ++weights_;
    data->synthetic_scale = 0.5f;
    return b_.Constant(data);
  }
  // A norm over the last axis of an f16 value, computed in f32.
  NodeId Norm(NodeId x) {
    const NodeId wide = b_.Cast(x, DType::kF32);
    const NodeId mean = b_.Mean(b_.Mul(wide, wide), {b_.shape(x).rank - 1}, true);
    const NodeId scale = b_.Unary(TapeOp::kRsqrt, b_.BinaryScalar(TapeOp::kAdd, mean, 1e-5));
    return b_.Cast(b_.Mul(wide, scale), DType::kF16);
  }
  LoweredProgram Fused(const FuseOptions& options = {}) {
    Result<LoweredProgram> program = Fuse(graph_, options, nullptr);
    EXPECT_TRUE(program.ok()) << program.status().message();
    return program.Take();
  }
  void ExpectTemporariesOf16Bits(const LoweredProgram& program, int count) {
    int found = 0;
    for (const LoweredValue& value : program.values) {
      if (value.kind != BufferKind::kTemporary) continue;
      EXPECT_EQ(value.dtype, DType::kF16) << value.name;
      ++found;
    }
    EXPECT_EQ(found, count);
  }

  ir::Graph graph_;
  ir::Builder b_;
  uint64_t weights_ = 0;
};

TEST_F(StoredValues, ASumOf16BitsThatANormWidensIsStoredIn16Bits) {
  const NodeId x = Input(Shape{6, 16});
  const NodeId sum = b_.Add(b_.MatMul(x, Weight(Shape{16, 16})), x);
  graph_.outputs.push_back({"y", Norm(sum)});
  ExpectTemporariesOf16Bits(ExpectFusionKeepsMeaning(graph_, 1), 1);
}

TEST_F(StoredValues, SoIsOneThatOnlyOneReaderWidens) {
  const NodeId x = Input(Shape{6, 16});
  const NodeId sum = b_.Add(b_.MatMul(x, Weight(Shape{16, 16})), x);
  graph_.outputs.push_back({"y", b_.Reduce(ir::ReduceKind::kSum, b_.Cast(sum, DType::kF32), {1}, true)});
  ExpectTemporariesOf16Bits(Fused(), 1);
}

TEST_F(StoredValues, ReadersInSeveralKernelsWidenEachForItself) {
  const NodeId x = Input(Shape{6, 16});
  const NodeId sum = b_.Add(b_.MatMul(x, Weight(Shape{16, 16})), x);
  const NodeId wide = b_.Cast(sum, DType::kF32);
  const NodeId total = b_.Reduce(ir::ReduceKind::kSum, wide, {1}, true);
  const NodeId largest = b_.Reduce(ir::ReduceKind::kMax, wide, {0}, true);
  graph_.outputs.push_back({"rows", total});
  graph_.outputs.push_back({"columns", largest});
  ExpectTemporariesOf16Bits(Fused(), 1);
}

// A block of a residual network on a GPU, whose 1x1 convolutions have become matmuls of pixels. The sum has
// its channels last, and so has the shortcut, whose memory the sum can take.
TEST_F(StoredValues, AShortcutLiesAsTheSumThatTakesItsPlace) {
  ir::ConvAttrs attrs;
  attrs.strides = attrs.dilations = {1, 1};
  attrs.pads_begin = attrs.pads_end = {1, 1};
  const Shape kernel{8, 8, 3, 3}, picture{1, 8, 6, 6};
  const auto convolved = [&](NodeId x) { return b_.Conv(x, Weight(kernel), attrs); };
  const auto by_pixel = [&](NodeId x) {
    const NodeId pixels = b_.Reshape(b_.Transpose(x, {0, 2, 3, 1}), Shape{36, 8});
    const NodeId y = b_.Reshape(b_.MatMul(pixels, Weight(Shape{8, 8})), Shape{1, 6, 6, 8});
    return b_.Transpose(y, {0, 3, 1, 2});
  };
  const NodeId x = convolved(Input(picture));
  const NodeId sum = b_.Add(by_pixel(b_.Unary(TapeOp::kTanh, convolved(x))), by_pixel(x));
  graph_.outputs.push_back({"y", convolved(b_.Unary(TapeOp::kTanh, sum))});
  FuseOptions options;
  options.target = GpuTraits();
  const LoweredProgram program = Fused(options);
  EXPECT_TRUE(std::any_of(program.ops.begin(), program.ops.end(),
                          [](const LoweredOp& op) { return !op.in_place.empty(); }));
}

// A matmul whose result a residual reads, and the next matmul reads quantised, is one kernel that stores
// both.
TEST_F(StoredValues, WhatIsQuantisedForTheNextProductIsStoredBesideTheResidual) {
  for (const bool gpu : {false, true}) {
    graph_ = {};
    const NodeId x = b_.Input("x", DType::kF32, Shape{64, 32}), w = b_.Input("w", DType::kF32, Shape{32, 48}),
                 v = b_.Input("v", DType::kE4M3, Shape{48, 48});
    const NodeId y = b_.Unary(TapeOp::kTanh, b_.MatMul(x, w));
    const NodeId numbers = b_.Cast(b_.BinaryScalar(TapeOp::kDiv, y, 0.25), DType::kE4M3);
    graph_.outputs.push_back({"z", b_.Add(b_.MatMul(numbers, v), y)});
    FuseOptions options;
    if (gpu) options.target = GpuTraits();
    const LoweredProgram program = ExpectFusionKeepsMeaning(graph_, 7, options);
    int kernels = 0;
    for (const LoweredOp& op : program.ops) kernels += op.kind == LoweredKind::kKernel;
    EXPECT_EQ(kernels, gpu ? 2 : 3);
  }
}

}  // namespace
}  // namespace rondo
