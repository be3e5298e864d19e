// Structure: a graph, pieces of models to make it of, and its fusion.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "compiler/fusion/fuse.h"
#include "compiler/ir/builder.h"

namespace rondo {

using ir::Builder;
using ir::Graph;
using ir::NodeId;

class Structure : public testing::Test {
 protected:
  Structure() : b_(&graph_) {}
  NodeId Weight(const Shape& shape) {
    auto data = std::make_shared<ir::ConstantData>();
    data->shape = shape;
    data->synthetic = true;
    data->synthetic_key = ++weights_;
    data->synthetic_scale = 1;
    return b_.Constant(data);
  }
  NodeId Input(const Shape& shape) {
    return b_.Input("x" + std::to_string(graph_.inputs.size()), DType::kF32, shape);
  }
  NodeId RmsNorm(NodeId x, NodeId weight) {
    NodeId mean = b_.Mean(b_.Mul(x, x), {b_.shape(x).rank - 1}, true);
    NodeId r = b_.Unary(TapeOp::kRsqrt, b_.BinaryScalar(TapeOp::kAdd, mean, 1e-5));
    return b_.Mul(b_.Mul(x, r), weight);
  }
  NodeId Silu(NodeId x) { return b_.Mul(x, b_.Unary(TapeOp::kSigmoid, x)); }
  NodeId Softmax(NodeId x) {
    int axis = b_.shape(x).rank - 1;
    NodeId e = b_.Unary(TapeOp::kExp, b_.Sub(x, b_.Reduce(ir::ReduceKind::kMax, x, {axis}, true)));
    return b_.Div(e, b_.Reduce(ir::ReduceKind::kSum, e, {axis}, true));
  }
  LoweredProgram FuseTo(std::vector<NodeId> outputs, const FuseOptions& options = {}) {
    for (NodeId node : outputs) graph_.outputs.push_back({"y" + std::to_string(graph_.outputs.size()), node});
    auto program = Fuse(graph_, options, nullptr);
    EXPECT_TRUE(program.ok()) << program.status().message();
    return program.ok() ? program.Take() : LoweredProgram();
  }
  static int Temporaries(const LoweredProgram& program) {
    int n = 0;
    for (const LoweredValue& value : program.values) n += value.kind == BufferKind::kTemporary;
    return n;
  }

  Graph graph_;
  Builder b_;
  uint64_t weights_ = 0;
};

}  // namespace rondo
