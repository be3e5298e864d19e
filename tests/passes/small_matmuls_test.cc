// small_matmuls: a matmul of bytes with one row, quantised by its range, becomes sums.
#include "compiler/quantise/steps.h"
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;
using ir::Op;

struct Squeeze {
  int64_t inputs = 12, outputs = 5;
  bool matmul = false;
  int64_t rows = 1, pad = 0;
  bool ranged = true;  // otherwise the scale is given
  bool other_reader = false;
  bool corrected = true;  // a matmul with ones subtracts the weights' zero point,
  bool summed = false;    // or a sum of all bytes does so
};

// A matmul of a value quantised as import writes DynamicQuantizeLinear. Returns the number of changed
// matmuls.
int64_t SummedIn(SmallGraph* s, const Squeeze& squeeze) {
  ir::Builder& b = s->b;
  const int64_t k = squeeze.inputs, n = squeeze.outputs, rows = squeeze.rows;
  const Shape shape = squeeze.matmul ? Shape{rows, k} : Shape{rows, k, 1, 1};
  const Shape results = squeeze.matmul ? Shape{rows, n} : Shape{rows, n, 1, 1};
  const std::vector<int> all = squeeze.matmul ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2, 3};
  const NodeId x = b.BinaryScalar(TapeOp::kSub, s->In("x", shape), 0.25);
  const auto extreme = [&](ir::ReduceKind kind, TapeOp op) {
    const NodeId found =
        squeeze.ranged ? b.Reduce(kind, x, all, false) : s->In(op == TapeOp::kMax ? "max" : "min", Shape{});
    return b.BinaryScalar(op, found, 0);
  };
  const NodeId min = extreme(ir::ReduceKind::kMin, TapeOp::kMin),
               max = extreme(ir::ReduceKind::kMax, TapeOp::kMax);
  const NodeId scale = b.BinaryScalar(TapeOp::kDiv, b.Sub(max, min), 255);
  const NodeId zero = b.Unary(TapeOp::kRound, b.Div(b.Unary(TapeOp::kNeg, min), scale));
  NodeId q = b.Add(b.Unary(TapeOp::kRound, b.Div(x, b.Expand(scale, shape))), b.Expand(zero, shape));
  q = b.Cast(b.BinaryScalar(TapeOp::kMin, b.BinaryScalar(TapeOp::kMax, q, 0), 255), DType::kU8);
  std::vector<int64_t> weights, sums(static_cast<size_t>(n));
  for (int64_t i = 0; i < n * k; ++i) weights.push_back(i * 37 % 255 - 127);
  const auto product = [&](NodeId w) {
    if (squeeze.matmul) return b.MatMul(q, w);
    ir::ConvAttrs attrs;
    attrs.strides = attrs.dilations = {1 + 2 * squeeze.pad, 1 + 2 * squeeze.pad};
    attrs.pads_begin = attrs.pads_end = {squeeze.pad, squeeze.pad};
    return b.Conv(q, w, attrs);
  };
  const Shape of_weights = squeeze.matmul ? Shape{k, n} : Shape{n, k, 1, 1};
  NodeId y = product(b.Ints(DType::kI8, of_weights, weights));
  y = b.Sub(y, b.Expand(b.Cast(zero, DType::kI32), results));
  if (squeeze.corrected)
    y = b.Sub(y, b.Mul(product(b.Expand(b.Ints(DType::kI8, Shape{}, {1}), of_weights)),
                       b.Ints(DType::kI32, Shape{}, {3})));
  if (squeeze.summed) {
    const NodeId sum = b.Reduce(ir::ReduceKind::kSum, b.Cast(q, DType::kI32), all, true);
    y = b.Sub(y, b.Expand(b.Mul(sum, b.Ints(DType::kI32, Shape{}, {3})), results));
  }
  s->Out("y", b.Mul(b.Cast(y, DType::kF32), b.Expand(scale, results)));
  if (squeeze.other_reader) s->Out("q", q);
  return ExpectSame(s, [](ir::Graph* g, const PassOptions&) { return Tidied(g, SumSmallMatmuls(g)); })
      .changes;
}

TEST(SmallMatmuls, BecomeSumsThatFindTheRange) {
  for (const bool matmul : {false, true}) {
    for (const int64_t outputs : {5, 12}) {
      SmallGraph s;
      EXPECT_EQ(SummedIn(&s, {.outputs = outputs, .matmul = matmul}), 2);
      EXPECT_EQ(s.CountOf(Op::kConv) + s.CountOf(Op::kMatMul), 0) << ir::Dump(s.g);
      // Both extremes and both sums, each for every output: no number for all of them is left.
      EXPECT_EQ(s.CountOf(Op::kReduce), 4) << ir::Dump(s.g);
      for (NodeId id = 0; id < s.g.size(); ++id) {
        const ir::Node& node = s.g.node(id);
        if (!node.dead && node.op == Op::kReduce) {
          EXPECT_EQ(node.shape.elements(), outputs) << ir::Dump(s.g);
        }
      }
    }
  }
}

TEST(SmallMatmuls, ASumOfAllBytesIsFoundBesideThem) {
  SmallGraph s;
  EXPECT_EQ(SummedIn(&s, {.matmul = true, .corrected = false, .summed = true}), 1);
  EXPECT_EQ(s.CountOf(Op::kReduce), 4) << ir::Dump(s.g);
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    if (!node.dead && node.op == Op::kReduce) {
      EXPECT_EQ(node.shape.elements(), 5) << ir::Dump(s.g);
    }
  }
}

TEST(SmallMatmuls, WeightsStayBytes) {
  SmallGraph s;
  SummedIn(&s, Squeeze{});
  for (NodeId id = 0; id < s.g.size(); ++id) {
    const ir::Node& node = s.g.node(id);
    const bool weights = !node.dead && node.op == Op::kConstant && node.shape.elements() == 60;
    if (weights) {
      EXPECT_EQ(node.dtype, DType::kI8);
    }
  }
}

TEST(SmallMatmuls, OthersStay) {
  for (const Squeeze& squeeze :
       {Squeeze{.rows = 2}, Squeeze{.matmul = true, .rows = 3}, Squeeze{.ranged = false},
        Squeeze{.other_reader = true}, Squeeze{.pad = 1}, Squeeze{.inputs = 1024, .outputs = 1024}}) {
    SmallGraph s;
    EXPECT_EQ(SummedIn(&s, squeeze), 0) << ir::Dump(s.g);
  }
}

}  // namespace
}  // namespace rondo::passes
