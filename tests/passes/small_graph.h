// Small graphs built by hand, run before and after a pass on the same random inputs.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/ir/builder.h"
#include "compiler/ir/evaluate.h"
#include "compiler/passes/match.h"
#include "compiler/passes/passes.h"
#include "core/scalar.h"

namespace rondo::passes {

struct SmallGraph {
  ir::Graph g;
  ir::Builder b{&g};

  ir::NodeId In(const std::string& name, const Shape& shape, DType dtype = DType::kF32) {
    return b.Input(name, dtype, shape);
  }
  void Out(const std::string& name, ir::NodeId id) { g.outputs.push_back({name, id}); }
  int64_t CountOf(ir::Op op) const {
    int64_t n = 0;
    for (ir::NodeId id = 0; id < g.size(); ++id) n += !g.node(id).dead && g.node(id).op == op;
    return n;
  }
  int64_t CountOf(TapeOp op) const {
    int64_t n = 0;
    for (ir::NodeId id = 0; id < g.size(); ++id) {
      const ir::Node& node = g.node(id);
      n += !node.dead && node.op == ir::Op::kPointwise && node.As<ir::PointwiseAttrs>().op == op;
    }
    return n;
  }
};

// Floats in [0.1, 2), integers in [0, `most`].
inline ir::Values RandomInputs(const ir::Graph& g, int64_t most = 2) {
  std::mt19937 rng(3);
  ir::Values values;
  for (const ir::GraphInput& in : g.inputs) {
    const ir::Node& n = g.node(in.node);
    std::vector<uint8_t> bytes(static_cast<size_t>(n.shape.elements() * ByteSize(n.dtype)));
    for (int64_t i = 0; i < n.shape.elements(); ++i) {
      if (IsFloat(n.dtype)) {
        scalar::Store(n.dtype, bytes.data(), i, std::uniform_real_distribution<double>(0.1, 2)(rng));
      } else {
        scalar::Store(n.dtype, bytes.data(), i, std::uniform_int_distribution<int64_t>(0, most)(rng));
      }
    }
    values.push_back(ir::ConstantData::Own(n.dtype, n.shape, bytes));
  }
  return values;
}

// Completes a part of a pass that made `changes` changes: tidies the graph and returns a pass's result.
inline Result<PassResult> Tidied(ir::Graph* graph, int64_t changes) {
  Tidy(graph);
  return PassResult{changes, ""};
}

// Runs the pass and expects a valid graph with the same outputs. Returns the pass's result.
inline PassResult ExpectSame(SmallGraph* s, Result<PassResult> (*pass)(ir::Graph*, const PassOptions&),
                             const PassOptions& options = {}, int64_t most = 2) {
  EXPECT_EQ(ir::Validate(s->g), "");
  ir::Values in = RandomInputs(s->g, most);
  Result<ir::Values> before = ir::EvaluateGraph(s->g, in);
  EXPECT_TRUE(before.ok()) << before.status().message();
  Result<PassResult> result = pass(&s->g, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(ir::Validate(s->g), "") << ir::Dump(s->g);
  Result<ir::Values> after = ir::EvaluateGraph(s->g, in);
  EXPECT_TRUE(after.ok()) << after.status().message();
  if (!before.ok() || !result.ok() || !after.ok()) return {};
  for (size_t o = 0; o < before->size(); ++o) {
    const ir::ConstantData &x = *(*before)[o], &y = *(*after)[o];
    EXPECT_TRUE(x.shape == y.shape && x.dtype == y.dtype) << "output " << o;
    for (int64_t i = 0; i < x.shape.elements() && x.shape == y.shape; ++i) {
      scalar::Value u = scalar::LoadValue(x.dtype, x.bytes.data(), i),
                    v = scalar::LoadValue(y.dtype, y.bytes.data(), i);
      if (NaturalType(x.dtype) == TapeType::kF32) {
        EXPECT_NEAR(u.f32, v.f32, 1e-5 * std::max(1.0f, std::abs(u.f32)))
            << "output " << o << " element " << i;
      } else {
        EXPECT_EQ(u.i64, v.i64) << "output " << o << " element " << i;
      }
    }
  }
  return *result;
}

}  // namespace rondo::passes
