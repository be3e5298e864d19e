// LowerPrecision: which values are rounded to 16 bits, and which never are.
#include "tests/passes/small_graph.h"

namespace rondo::passes {
namespace {

using ir::NodeId;

std::vector<float> FloatsOf(const ir::ConstantData& data) {
  std::vector<float> values;
  for (int64_t i = 0; i < data.shape.elements(); ++i) {
    values.push_back(scalar::Load<float>(data.dtype, data.bytes.data(), i));
  }
  return values;
}

// Lowers the graph to `type`. Returns the relative error in norm of its outputs.
double ErrorIn(DType type, SmallGraph* s, int64_t most = 2) {
  const ir::Values in = RandomInputs(s->g, most);
  Result<ir::Values> exact = ir::EvaluateGraph(s->g, in);
  PassOptions options;
  options.precision = type;
  Result<PassResult> result = LowerPrecision(&s->g, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(ir::Validate(s->g), "") << ir::Dump(s->g);
  ir::Values given = in;
  for (size_t i = 0; i < given.size(); ++i) {  // states have the type now
    const DType now = s->g.node(s->g.inputs[i].node).dtype;
    if (now == given[i]->dtype) continue;
    std::vector<uint8_t> bytes(static_cast<size_t>(given[i]->shape.elements() * ByteSize(now)));
    const std::vector<float> values = FloatsOf(*given[i]);
    for (size_t e = 0; e < values.size(); ++e)
      scalar::Store(now, bytes.data(), static_cast<int64_t>(e), values[e]);
    given[i] = ir::ConstantData::Own(now, given[i]->shape, bytes);
  }
  Result<ir::Values> lowered = ir::EvaluateGraph(s->g, given);
  EXPECT_TRUE(exact.ok() && lowered.ok());
  if (!exact.ok() || !lowered.ok()) return 1e30;
  double error = 0, norm = 0;
  for (size_t o = 0; o < exact->size(); ++o) {
    const std::vector<float> x = FloatsOf(*(*exact)[o]), y = FloatsOf(*(*lowered)[o]);
    for (size_t i = 0; i < x.size(); ++i) {
      error += (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
      norm += double{x[i]} * x[i];
    }
  }
  return std::sqrt(error / norm);
}

NodeId Weight(SmallGraph* s, const Shape& shape, double value) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(value * std::sin(static_cast<double>(i)));
  return s->b.Floats(DType::kF32, shape, values);
}

int64_t CountOf(const ir::Graph& g, ir::Op op, DType of_input) {
  int64_t n = 0;
  for (NodeId id = 0; id < g.size(); ++id) {
    const ir::Node& node = g.node(id);
    n += !node.dead && node.op == op && g.node(node.inputs[0]).dtype == of_input;
  }
  return n;
}

TEST(LowerPrecision, LeavesF32AsItIs) {
  SmallGraph s;
  s.Out("y", s.b.MatMul(s.In("x", {4, 8}), Weight(&s, {8, 8}, 1)));
  const std::string before = ir::Dump(s.g);
  ASSERT_TRUE(LowerPrecision(&s.g, {}).ok());
  EXPECT_EQ(ir::Dump(s.g), before);
}

TEST(LowerPrecision, ProductsReadSixteenBitsAndPortsStay) {
  for (DType type : {DType::kF16, DType::kBF16}) {
    SmallGraph s;
    const NodeId x = s.In("x", {4, 64});
    const NodeId h = s.b.Unary(TapeOp::kTanh, s.b.MatMul(x, Weight(&s, {64, 32}, 0.3)));
    const NodeId y = s.b.Add(s.b.MatMul(h, Weight(&s, {32, 64}, 0.3)), x);
    s.Out("y", y);
    EXPECT_LT(ErrorIn(type, &s), type == DType::kF16 ? 1e-3 : 8e-3);
    EXPECT_EQ(CountOf(s.g, ir::Op::kMatMul, type), 2);
    EXPECT_EQ(CountOf(s.g, ir::Op::kMatMul, DType::kF32), 0);
    EXPECT_EQ(s.g.node(s.g.inputs[0].node).dtype, DType::kF32);
    EXPECT_EQ(s.g.node(s.g.outputs[0].node).dtype, DType::kF32);
  }
}

TEST(LowerPrecision, WeightsAreRoundedOnceAndShared) {
  SmallGraph s;
  const NodeId table = Weight(&s, {400, 64}, 1), tokens = s.In("tokens", {3}, DType::kI64);
  const NodeId x = s.b.Gather(table, tokens, 0);
  s.Out("logits", s.b.MatMul(x, s.b.Transpose(table, {1, 0})));
  EXPECT_LT(ErrorIn(DType::kBF16, &s), 1e-2);
  int64_t bytes = 0;
  for (NodeId id = 0; id < s.g.size(); ++id) {
    if (!s.g.node(id).dead && s.g.IsConstant(id))
      bytes += s.g.node(id).As<ir::ConstantAttrs>().data->byte_size();
  }
  EXPECT_EQ(bytes, 400 * 64 * 2);
  EXPECT_EQ(s.g.node(s.g.inputs[0].node).dtype, DType::kI64);
}

TEST(LowerPrecision, SyntheticWeightsAreMadeInTheType) {
  SmallGraph s;
  auto data = std::make_shared<ir::ConstantData>();
  data->shape = {64, 64};
  data->synthetic = true;
  data->synthetic_key = 7;
  data->synthetic_scale = 0.1f;
  s.Out("y", s.b.MatMul(s.In("x", {4, 64}), s.b.Constant(data)));
  EXPECT_LT(ErrorIn(DType::kF16, &s), 1e-3);
  const ir::Node& product = s.g.node(s.g.outputs[0].node);
  ASSERT_EQ(product.op, ir::Op::kMatMul);
  const ir::Node& weight = s.g.node(product.inputs[1]);
  EXPECT_EQ(weight.dtype, DType::kF16);
  EXPECT_TRUE(weight.As<ir::ConstantAttrs>().data->synthetic);
}

TEST(LowerPrecision, AWeightThatTheTypeDoesNotHoldIsRefusedByName) {
  for (DType type : {DType::kF16, DType::kBF16}) {
    SmallGraph s;
    s.b.SetSources({"MatMul \"big\""});
    s.Out("y", s.b.MatMul(s.In("x", {2, 4}), s.b.Floats(DType::kF32, {4, 1}, {1, 70000, 3, 4})));
    PassOptions options;
    options.precision = type;
    Result<PassResult> result = LowerPrecision(&s.g, options);
    EXPECT_EQ(result.ok(), type == DType::kBF16);
    if (result.ok()) continue;
    const std::string message = result.status().message();
    EXPECT_NE(message.find("MatMul \"big\""), std::string::npos) << message;
    EXPECT_NE(message.find("70000"), std::string::npos) << message;
    EXPECT_NE(message.find("65504"), std::string::npos) << message;
  }
}

TEST(LowerPrecision, AProductWithAWeightTooSmallForF16StaysInF32) {
  for (DType type : {DType::kF16, DType::kBF16}) {
    for (double scale : {1e-7, 0x1p-16, 0.0}) {
      SmallGraph s;
      s.Out("y",
            s.b.MatMul(s.In("x", {2, 4}), s.b.Floats(DType::kF32, {4, 1}, {scale, -scale, 0, scale / 3})));
      PassOptions options;
      options.precision = type;
      ASSERT_TRUE(LowerPrecision(&s.g, options).ok());
      for (NodeId id = 0; id < s.g.size(); ++id) {
        const ir::Node& n = s.g.node(id);
        if (n.dead || n.op != ir::Op::kMatMul) continue;
        const bool stays = type == DType::kF16 && scale == 1e-7;
        EXPECT_EQ(s.g.node(s.g.BaseOf(n.inputs[1])).dtype, stays ? DType::kF32 : type) << scale;
      }
    }
  }
}

// x W, then `op` with a constant, then a matmul.
TEST(LowerPrecision, AProductOfWhatF16CannotHoldStaysInF32) {
  struct Case {
    TapeOp op;
    double constant;
    bool stays;
  };
  for (const Case& c :
       {Case{TapeOp::kAdd, 1e6, true}, Case{TapeOp::kMul, 1e5, true}, Case{TapeOp::kAdd, 1e4, false},
        Case{TapeOp::kAdd, -1e9, false}, Case{TapeOp::kMin, 3e38, false}, Case{TapeOp::kDiv, 1e6, false}}) {
    SmallGraph s;
    const NodeId first = s.b.MatMul(s.In("x", {2, 8}), Weight(&s, {8, 8}, 1));
    const NodeId changed = s.b.BinaryScalar(c.op, first, c.constant);
    s.Out("y", s.b.MatMul(changed, Weight(&s, {8, 4}, 2)));
    PassOptions options;
    options.precision = DType::kF16;
    ASSERT_TRUE(LowerPrecision(&s.g, options).ok());
    std::vector<DType> factors;
    for (NodeId id : s.g.TopologicalOrder()) {
      const ir::Node& n = s.g.node(id);
      if (n.op == ir::Op::kMatMul) factors.push_back(s.g.node(s.g.BaseOf(n.inputs[0])).dtype);
    }
    ASSERT_EQ(factors.size(), 2u);
    EXPECT_EQ(factors[0], DType::kF16);
    EXPECT_EQ(factors[1], c.stays ? DType::kF32 : DType::kF16) << static_cast<int>(c.op) << " " << c.constant;
  }
}

// Scores of a softmax that is not part of attention. The first row is masked entirely.
void AddMaskedSoftmax(SmallGraph* s, double masked) {
  const NodeId scores = s->b.MatMul(s->In("x", {2, 8}), Weight(s, {8, 4}, 1));
  const NodeId mask = s->b.Floats(DType::kF32, {2, 4}, {masked, masked, masked, masked, 0, masked, 0, 0});
  const NodeId sum = s->b.Add(scores, mask);
  s->Out("sum", s->b.MatMul(sum, Weight(s, {4, 4}, 0)));  // asks for the masked scores in 16 bits
  const NodeId e = s->b.Unary(TapeOp::kExp, s->b.Sub(sum, s->b.Reduce(ir::ReduceKind::kMax, sum, {1}, true)));
  s->Out("y", s->b.Div(e, s->b.Reduce(ir::ReduceKind::kSum, e, {1}, true)));
}

TEST(LowerPrecision, FiniteMasksStayFinite) {
  for (DType type : {DType::kF16, DType::kBF16}) {
    for (double masked : {-1e9, -3.4028234663852886e38, -65504.0}) {
      SmallGraph s;
      AddMaskedSoftmax(&s, masked);
      const ir::Values in = RandomInputs(s.g);
      PassOptions options;
      options.precision = type;
      ASSERT_TRUE(LowerPrecision(&s.g, options).ok());
      Result<ir::Values> out = ir::EvaluateGraph(s.g, in);
      ASSERT_TRUE(out.ok());
      for (float value : FloatsOf(*(*out)[0])) EXPECT_TRUE(std::isfinite(value)) << masked;
      const std::vector<float> y = FloatsOf(*(*out)[1]);
      for (float value : y) EXPECT_TRUE(std::isfinite(value)) << masked;
      EXPECT_EQ(y[5], 0) << masked;
    }
  }
}

TEST(LowerPrecision, ProductsOfPositionsStayExact) {
  SmallGraph s;
  const NodeId position = s.b.Cast(s.In("position", {1, 8, 1}, DType::kI64), DType::kF32);
  const NodeId frequencies = s.b.Floats(DType::kF32, {1, 1, 4}, {1, 0.1, 0.01, 0.001});
  s.Out("angles", s.b.Unary(TapeOp::kCos, s.b.MatMul(position, frequencies)));
  EXPECT_LT(ErrorIn(DType::kBF16, &s, 4000), 1e-6);
  EXPECT_EQ(CountOf(s.g, ir::Op::kMatMul, DType::kF32), 1);
}

TEST(LowerPrecision, StatesAreOfTheTypeAndWrittenInPlace) {
  SmallGraph s;
  const NodeId cache = s.In("cache", {16, 8}), row = s.In("row", {1}, DType::kI64);
  const NodeId x = s.b.MatMul(s.In("x", {1, 8}), Weight(&s, {8, 8}, 1));
  ir::IndexedAttrs attrs;
  attrs.map = ir::DenseView({1, 8});
  attrs.dims = {{8, 16, true}};
  attrs.may_collide = false;
  const NodeId written = s.b.IndexedWrite(cache, x, {s.b.Expand(s.b.Reshape(row, {1, 1}), {1, 8})}, attrs);
  s.Out("cache_out", written);
  s.Out("y", s.b.MatMul(x, s.b.Transpose(written, {1, 0})));
  s.g.states = {{0, 0}};
  EXPECT_LT(ErrorIn(DType::kF16, &s), 1e-3);
  EXPECT_EQ(s.g.node(s.g.inputs[0].node).dtype, DType::kF16);
  const ir::Node& out = s.g.node(s.g.outputs[0].node);
  EXPECT_EQ(out.op, ir::Op::kIndexedWrite);
  EXPECT_EQ(out.dtype, DType::kF16);
  EXPECT_EQ(out.inputs[0], s.g.inputs[0].node);
}

// Devices exchange half as many bytes; the order of collectives stays.
TEST(LowerPrecision, CollectivesExchangeTheTypeInTheirOrder) {
  SmallGraph s;
  NodeId x = s.In("x", {4, 8});
  NodeId collectives[2];
  for (NodeId& collective : collectives) {
    x = collective = s.b.Collective(CollectiveOp::kAllReduce, s.b.MatMul(x, Weight(&s, {8, 8}, 1)), 2);
  }
  s.Out("y", x);
  PassOptions options;
  options.precision = DType::kBF16;
  ASSERT_TRUE(LowerPrecision(&s.g, options).ok());
  EXPECT_EQ(ir::Validate(s.g), "") << ir::Dump(s.g);
  std::vector<NodeId> found;
  for (NodeId id = 0; id < s.g.size(); ++id) {
    if (!s.g.node(id).dead && s.g.node(id).op == ir::Op::kCollective) found.push_back(id);
  }
  ASSERT_EQ(found.size(), 2u);
  for (NodeId id : found) EXPECT_EQ(s.g.node(id).dtype, DType::kBF16);
  EXPECT_EQ(s.g.node(found[1]).weak_after, std::vector<NodeId>{found[0]});
  EXPECT_EQ(s.g.node(s.g.outputs[0].node).dtype, DType::kF32);
}

// The product of two values that grow with the inputs can exceed f16, whatever reads it.
TEST(LowerPrecision, WhatGrowsWithAPowerOfTheActivationsStaysInF32) {
  for (const bool squared : {false, true}) {
    SmallGraph s;
    const NodeId tens = s.b.Floats(DType::kF32, {64, 64}, std::vector<double>(64 * 64, 10));
    const NodeId p = s.b.MatMul(s.In("x", {2, 64}), tens), q = s.b.MatMul(s.In("z", {2, 64}), tens);
    const NodeId y = s.b.Mul(p, squared ? p : q);  // about 4e5
    s.Out("a", s.b.BinaryScalar(TapeOp::kMul, y, 1e-3));
    s.Out("b", s.b.Unary(TapeOp::kSqrt, y));
    EXPECT_LT(ErrorIn(DType::kF16, &s), 1e-2);
  }
}

TEST(LowerPrecision, NormsAreComputedInF32) {
  SmallGraph s;
  const NodeId x = s.b.Add(s.b.MatMul(s.In("x", {2, 64}), Weight(&s, {64, 64}, 40)), s.In("r", {2, 64}));
  const NodeId square = s.b.Mean(s.b.Mul(x, x), {1}, true);  // beyond f16
  const NodeId norm = s.b.Mul(x, s.b.Expand(s.b.Unary(TapeOp::kRsqrt, square), {2, 64}));
  s.Out("y", s.b.MatMul(norm, Weight(&s, {64, 8}, 1)));
  EXPECT_LT(ErrorIn(DType::kF16, &s), 1e-2);
}

}  // namespace
}  // namespace rondo::passes
