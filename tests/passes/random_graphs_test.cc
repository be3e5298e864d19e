// Random graphs through all passes: the outputs stay the same, whatever the passes recognise.
#include "tests/passes/all_passes.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using Rng = std::mt19937;

int64_t Pick(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

// A new value of shape [2, 4, 6] computed from values of `pool`, which have the same shape.
NodeId Step(SmallGraph* s, Rng& rng, const std::vector<NodeId>& pool) {
  ir::Builder& b = s->b;
  auto any = [&] { return pool[static_cast<size_t>(Pick(rng, 0, static_cast<int64_t>(pool.size()) - 1))]; };
  const Shape shape({2, 4, 6});
  NodeId x = any();
  switch (Pick(rng, 0, 12)) {
    case 0: return b.Unary(Pick(rng, 0, 1) ? TapeOp::kTanh : TapeOp::kNeg, x);
    case 1:
      return b.Binary(Pick(rng, 0, 1) ? TapeOp::kAdd : TapeOp::kMul, x, b.Unary(TapeOp::kSigmoid, any()));
    case 2: return b.BinaryScalar(TapeOp::kMul, x, static_cast<double>(Pick(rng, 0, 2)));
    case 3: return b.Reshape(b.Transpose(x, {1, 0, 2}), shape);
    case 4: {
      int axis = static_cast<int>(Pick(rng, 0, 2));
      int64_t half = shape[axis] / 2;
      NodeId low = b.Slice(x, axis, 0, 1, half), high = b.Slice(any(), axis, half, 1, half);
      return Pick(rng, 0, 1) ? b.Concat({b.Unary(TapeOp::kNeg, high), low}, axis)
                             : b.Concat({low, high}, axis);
    }
    case 5: return b.Sub(x, b.Mean(x, {2}, true));
    case 6: {
      std::vector<double> w(36);
      for (size_t i = 0; i < w.size(); ++i) w[i] = 0.05 * static_cast<double>((i * 7) % 11) - 0.2;
      NodeId y = b.MatMul(x, b.Floats(DType::kF32, Shape({6, 6}), w));
      return Pick(rng, 0, 1) ? y : b.Concat({b.Slice(y, 2, 3, 1, 3), b.Slice(y, 2, 0, 1, 3)}, 2);
    }
    case 7: {
      NodeId scores = b.BinaryScalar(TapeOp::kMul, b.MatMul(x, b.Transpose(any(), {0, 2, 1})), 0.3);
      std::vector<int64_t> keep;
      for (int64_t i = 0; i < 16; ++i) keep.push_back(i % 4 <= i / 4);
      NodeId mask = b.Select(b.Ints(DType::kBool, Shape({4, 4}), keep), b.Scalar(DType::kF32, 0),
                             b.Scalar(DType::kF32, -1e30));
      if (Pick(rng, 0, 1)) scores = b.Add(scores, mask);
      NodeId e = b.Unary(TapeOp::kExp, b.Sub(scores, b.Reduce(ir::ReduceKind::kMax, scores, {2}, true)));
      return b.MatMul(b.Div(e, b.Reduce(ir::ReduceKind::kSum, e, {2}, true)), any());
    }
    case 8: return b.Gather(x, s->g.inputs[1].node, 1);
    case 9: return b.Gather(b.Transpose(x, {0, 1, 2}), b.I64({3, 0, 2, 1}), 1);
    case 10: {
      ir::IndexedAttrs attrs;
      attrs.map = ir::DenseView(Shape({2, 4, 6}));
      attrs.map.steps[0].strides[1] = 0;
      attrs.dims = {{6, 4, true}};
      return b.IndexedWrite(x, any(), {b.Reshape(s->g.inputs[1].node, Shape({1, 4, 1}))}, attrs);
    }
    case 11: return b.Cast(b.Cast(x, DType::kF64), DType::kF32);
    default: return b.Expand(b.Slice(x, 1, Pick(rng, 0, 3), 1, 1), shape);
  }
}

Result<PassResult> AllPasses(ir::Graph* graph, const PassOptions& options) {
  RONDO_RETURN_IF_ERROR(RunAllPasses(graph, options, nullptr));
  return PassResult();
}

TEST(RandomGraphsTest, KeepTheirOutputsThroughAllPasses) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    SmallGraph s;
    std::vector<NodeId> pool = {s.In("x", Shape({2, 4, 6}))};
    s.In("at", Shape({4}), DType::kI64);
    for (int64_t n = Pick(rng, 3, 14); n > 0; --n) pool.push_back(Step(&s, rng, pool));
    for (size_t i = pool.size() - 3; i < pool.size(); ++i) s.Out("o" + std::to_string(i), pool[i]);
    if (Pick(rng, 0, 1)) s.g.states = {{0, 2}};
    PassOptions options;
    if (!s.g.states.empty()) options.states = {{"x", s.g.outputs[2].name}};
    ExpectSame(&s, AllPasses, options, 3);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << "\n" << ir::Dump(s.g);
  }
}

}  // namespace
}  // namespace rondo::passes
