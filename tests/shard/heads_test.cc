// Attention with a number of heads that the device count does not divide. Heads are padded, with the same
// results, unless a state holds them.
#include <cmath>
#include <tuple>

#include "compiler/shard/pad_heads.h"
#include "compiler/shard/pad_uneven.h"
#include "tests/shard/same_results.h"

namespace rondo::shard {
namespace {

struct EncoderShape {
  int64_t tokens = 5, heads = 6, groups = 6, features = 8, hidden = 48, out = 40;
  bool bias = false, normed = false, turned = false, mask = false, slopes = false, synthetic = false;
  bool gated = false;      // attention's result is multiplied by a gate of its shape
  bool looked_at = false;  // a node reads a single head
  bool summed = false;     // a node reads the sum over the heads
};

class Encoder {
 public:
  explicit Encoder(const EncoderShape& shape) : d_(shape) {
    NodeId x = s_.In("x", Shape({2, d_.tokens, d_.hidden}));
    if (d_.mask) mask_ = s_.In("mask", Shape({2, 1, 1, d_.tokens}));
    for (int layer = 0; layer < 2; ++layer) x = Layer(x);
    s_.Out("y", x);
    SeparateWeights(&s_.g);
  }
  SmallGraph& graph() { return s_; }

 private:
  using NodeId = ir::NodeId;

  NodeId Weight(const Shape& shape) {
    ++seed_;
    if (d_.synthetic) {
      auto data = std::make_shared<ir::ConstantData>();
      data->shape = shape;
      data->synthetic = true;
      data->synthetic_key = static_cast<uint64_t>(seed_);
      data->synthetic_scale = 0.2f;
      return s_.b.Constant(data);
    }
    std::vector<double> values(static_cast<size_t>(shape.elements()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>((i * 7919 + static_cast<size_t>(seed_) * 104729) % 1999) / 4000 - 0.25;
    return s_.b.Floats(DType::kF32, shape, values);
  }

  NodeId Heads(NodeId x, int64_t count) {
    ir::Builder& b = s_.b;
    NodeId y = b.MatMul(x, Weight(Shape({d_.hidden, count * d_.features})));
    if (d_.bias) y = b.Add(y, Weight(Shape({count * d_.features})));
    y = b.Transpose(b.Reshape(y, Shape({2, d_.tokens, count, d_.features})), {0, 2, 1, 3});
    if (!d_.normed) return y;
    const NodeId mean = b.Mean(b.Mul(y, y), {3}, true);
    return b.Mul(b.Mul(y, b.Unary(TapeOp::kRsqrt, mean)),
                 Weight(Shape({d_.features})));  // 0 / 0 where padded
  }
  NodeId Turned(NodeId y) {
    if (!d_.turned) return y;
    const int64_t half = d_.features / 2;
    ir::Builder& b = s_.b;
    if (d_.bias) {  // one view swaps the halves
      const Shape shape = b.shape(y), halves({shape[0], shape[1], shape[2], 2, half});
      return b.Reshape(b.ViewNode(y, ir::Slice(ir::Reshape(ir::DenseView(shape), halves), 3, 1, -1, 2)),
                       shape);
    }
    return b.Concat({b.Unary(TapeOp::kNeg, b.Slice(y, 3, half, 1, half)), b.Slice(y, 3, 0, 1, half)}, 3);
  }

  NodeId Layer(NodeId x) {
    ir::Builder& b = s_.b;
    const NodeId q = Turned(Heads(x, d_.heads)), k = Turned(Heads(x, d_.groups)), v = Heads(x, d_.groups);
    ir::AttentionAttrs attrs;
    attrs.scale = 0.3f;
    NodeId mask = ir::kNoNode;
    const Shape scores({2, d_.heads, d_.tokens, d_.tokens});
    if (d_.slopes) mask = b.Expand(Weight(Shape({d_.heads, 1, 1})), scores);
    if (d_.mask) mask = mask == ir::kNoNode ? b.Expand(mask_, scores) : b.Add(mask, b.Expand(mask_, scores));
    attrs.has_mask = mask != ir::kNoNode;
    const NodeId y = b.Attention(q, k, v, mask, ir::kNoNode, attrs);
    const int64_t all = d_.heads * d_.features;
    NodeId rows = b.Reshape(b.Transpose(y, {0, 2, 1, 3}), Shape({2, d_.tokens, all}));
    if (d_.gated) rows = b.Mul(rows, b.Unary(TapeOp::kSigmoid, b.MatMul(x, Weight(Shape({d_.hidden, all})))));
    NodeId sum = b.MatMul(rows, Weight(Shape({all, d_.hidden})));
    if (d_.summed) sum = b.Add(sum, b.Mean(rows, {2}, true));
    if (d_.looked_at) sum = b.Add(sum, b.Mean(b.Slice(rows, 2, 0, 1, d_.features), {2}, true));
    return b.Add(x, sum);
  }

  const EncoderShape d_;
  SmallGraph s_;
  NodeId mask_ = ir::kNoNode;
  int seed_ = 0;
};

// Every combination of nodes that may surround attention.
std::vector<EncoderShape> Shapes() {
  std::vector<EncoderShape> shapes;
  for (uint32_t bits = 0; bits < 64; ++bits) {
    EncoderShape shape;
    shape.bias = bits & 1;
    shape.normed = bits & 2;
    shape.turned = bits & 4;
    shape.mask = bits & 8;
    shape.slopes = bits & 16;
    shape.gated = bits & 32;
    if (bits % 3 == 1) shape.groups = 3;
    if (bits % 5 == 1) shape.heads = shape.groups = 5;
    if (bits % 7 == 1) shape.heads = 14, shape.groups = 2;
    shape.synthetic = bits % 4 == 3;
    shapes.push_back(shape);
  }
  return shapes;
}

TEST(PadHeads, ChangesNoResult) {
  int padded = 0;
  for (const EncoderShape& shape : Shapes()) {
    Encoder encoder(shape);
    const ir::Graph& whole = encoder.graph().g;
    for (int64_t devices : {2, 3, 4, 8}) {
      ir::Graph graph = whole;
      const std::vector<PaddedDim> dims = PadHeads(Costs(graph, devices), {}, false, &graph);
      padded += !dims.empty();
      ASSERT_EQ(ir::Validate(graph), "");
      const ir::Values inputs = passes::RandomInputs(whole);
      const auto want = ir::EvaluateGraph(whole, inputs), got = ir::EvaluateGraph(graph, inputs);
      ASSERT_TRUE(want.ok() && got.ok());
      ExpectNear(*(*want)[0], *(*got)[0], std::to_string(devices) + " devices");
      for (const PaddedDim& dim : dims) {
        EXPECT_TRUE(dim.heads);
        EXPECT_EQ(dim.from, shape.groups);
        EXPECT_EQ(dim.to % devices, 0);
      }
    }
  }
  EXPECT_GT(padded, 100);
}

TEST(PadHeads, LetsAttentionBeSharedOut) {
  for (const EncoderShape& shape : Shapes()) {
    Encoder encoder(shape);
    const ir::Graph& whole = encoder.graph().g;
    for (int64_t devices : {3, 4}) {
      if (shape.groups % devices == 0) continue;
      const int64_t to = (shape.groups + devices - 1) / devices * devices;
      if (4 * to > 3 * shape.groups * devices) continue;
      const ShardedGraph sharded = Sharded(whole, devices);
      const std::string says = "padded, for " + std::to_string(devices) +
                               " devices to divide it: " + std::to_string(shape.groups) + " to " +
                               std::to_string(to) + " heads, ";
      EXPECT_NE(sharded.text.find(says), std::string::npos) << sharded.text;
      EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), 2) << sharded.text;
      EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllGather), 0) << sharded.text;
      const double share = static_cast<double>(to) / static_cast<double>(shape.groups * devices);
      EXPECT_LT(WeightBytes(sharded.ranks[0]), 1.1 * share * static_cast<double>(WeightBytes(whole)) + 1000)
          << sharded.text;
      ExpectSame(whole, sharded.ranks, std::to_string(devices) + " devices");
    }
  }
}

// A node that reads all heads, or a single one, would see padded heads.
TEST(PadHeads, WhatIsReadInAnotherWayStays) {
  for (const bool summed : {true, false}) {
    EncoderShape shape;
    shape.summed = summed;
    shape.looked_at = !summed;
    Encoder encoder(shape);
    ir::Graph graph = encoder.graph().g;
    EXPECT_TRUE(PadHeads(Costs(graph, 4), {}, false, &graph).empty());
    ExpectSame(encoder.graph().g, Sharded(encoder.graph().g, 4).ranks, "4 devices");
  }
  SmallGraph decoder;  // caches
  DecoderShape shape;
  shape.heads = shape.groups = 6;
  MakeDecoder(shape, &decoder);
  EXPECT_TRUE(PadHeads(Costs(decoder.g, 4), {}, false, &decoder.g).empty());
}

// With two heads on three devices each would do half of the work; with nine on eight more is saved.
TEST(PadHeads, OnlyWhereEachDeviceDoesClearlyLess) {
  const auto padded = [](int64_t heads, int64_t devices) {
    EncoderShape shape;
    shape.heads = shape.groups = heads;
    shape.features = 64;  // large enough to be worth a message
    Encoder encoder(shape);
    return !PadHeads(Costs(encoder.graph().g, devices), {}, false, &encoder.graph().g).empty();
  };
  EXPECT_TRUE(padded(2, 3));
  EXPECT_TRUE(padded(9, 8));
  EXPECT_TRUE(padded(3, 2));
  EXPECT_FALSE(padded(4, 2));
  EXPECT_FALSE(padded(1, 2));
  EXPECT_TRUE(padded(3, 8));
  EXPECT_FALSE(padded(3, 3));
}

// A device's share of a state: its heads of `whole` along dim 1, and for padded heads numbers that would
// spoil every sum.
Data Dealt(const Data& whole, const Shape& local, int64_t rank) {
  const int64_t own = local[1], all = whole->shape[1], head = local[2] * local[3];
  std::vector<uint8_t> bytes(static_cast<size_t>(local.elements()) * 4);
  for (int64_t i = 0; i < local.elements(); ++i) {
    const int64_t h = i / head % own + rank * own, outer = i / (head * own);
    const double value =
        h < all ? scalar::Load<double>(DType::kF32, whole->bytes.data(), (outer * all + h) * head + i % head)
                : std::nan("");
    scalar::Store<double>(DType::kF32, bytes.data(), i, value);
  }
  return ir::ConstantData::Own(DType::kF32, local, bytes);
}

void ExpectSameOfPaddedStates(const ir::Graph& whole, const std::vector<ir::Graph>& ranks,
                              const std::string& what) {
  const ir::Values inputs = passes::RandomInputs(whole);
  const auto want = ir::EvaluateGraph(whole, inputs);
  ASSERT_TRUE(want.ok()) << want.status().message();
  std::vector<ir::Values> shares(ranks.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Shape& local = ranks[r].node(ranks[r].inputs[i].node).shape;
      shares[r].push_back(PairOfInput(whole, i) < 0 ? inputs[i]
                                                    : Dealt(inputs[i], local, static_cast<int64_t>(r)));
    }
  }
  const std::vector<ir::Values> got = EvaluateMesh(ranks, shares);
  for (size_t o = 0; o < want->size(); ++o) {
    for (size_t r = 0; r < ranks.size(); ++r) {
      const Data& mine = got[r][o];
      if (PairOfOutput(whole, o) < 0) {
        ExpectNear(*(*want)[o], *mine, what);
        continue;
      }
      const Data expected = Dealt((*want)[o], mine->shape, static_cast<int64_t>(r));
      for (int64_t i = 0; i < mine->shape.elements(); ++i) {
        const double a = scalar::Load<double>(DType::kF32, expected->bytes.data(), i);
        if (std::isnan(a)) continue;
        ASSERT_NEAR(a, scalar::Load<double>(DType::kF32, mine->bytes.data(), i), 1e-4) << what;
      }
    }
  }
}

TEST(PadHeads, CachesGetMoreHeadsWhereTheyMay) {
  for (const bool stacked : {false, true}) {
    for (const auto& [heads, groups, devices] : {std::tuple<int64_t, int64_t, int64_t>{6, 6, 4},
                                                 {5, 5, 2},
                                                 {10, 5, 2},
                                                 {14, 2, 4},
                                                 {9, 3, 2},
                                                 {12, 12, 8}}) {
      DecoderShape shape;
      shape.heads = heads;
      shape.groups = groups;
      shape.hidden = 96;
      shape.inner = 192;
      shape.stacked = stacked;
      SmallGraph s;
      MakeDecoder(shape, &s);
      const std::string what = std::to_string(heads) + ", " + std::to_string(groups) + " heads on " +
                               std::to_string(devices) + (stacked ? ", stacked" : "");
      StateShardings states;
      ShardedGraph sharded;
      const Status status = ShardGraph(s.g, devices, &states, &sharded, {}, nullptr, nullptr, true);
      ASSERT_TRUE(status.ok()) << status.message();
      const int64_t own = (groups + devices - 1) / devices;
      EXPECT_NE(
          sharded.text.find(std::to_string(groups) + " to " + std::to_string(own * devices) + " heads, "),
          std::string::npos)
          << what << sharded.text;
      EXPECT_EQ(sharded.padded.size(), s.g.states.size()) << what;
      for (const ir::StatePair& pair : sharded.ranks[0].states) {
        const ir::GraphInput& input = sharded.ranks[0].inputs[static_cast<size_t>(pair.input)];
        EXPECT_EQ(sharded.ranks[0].node(input.node).shape[1], own) << what;
      }
      EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), 2 * shape.layers + 1) << sharded.text;
      ExpectSameOfPaddedStates(s.g, sharded.ranks, what);
    }
  }
}

}  // namespace
}  // namespace rondo::shard
