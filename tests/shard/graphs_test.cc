// A graph and its shards compute the same, with the chosen sharding and with any other.
#include <random>

#include "compiler/shard/pad_uneven.h"
#include "compiler/shard/rank_graph.h"
#include "tests/shard/same_results.h"

namespace rondo::shard {
namespace {

TEST(ShardTest, ADecoderHasTwoAllReducesALayerAndOneGatherAtTheEnd) {
  DecoderShape shape;
  shape.hidden = 96;
  shape.inner = 192;
  SmallGraph s;
  MakeDecoder(shape, &s);
  const ShardedGraph sharded = Sharded(s.g, 2);
  // One more for the embedding, whose rows are sharded.
  EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), 2 * shape.layers + 1) << sharded.text;
  EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllGather), 1) << sharded.text;
  EXPECT_LT(WeightBytes(sharded.ranks[0]), 0.51 * static_cast<double>(WeightBytes(s.g)) + 3000)
      << sharded.text;
  const ir::Graph& rank = sharded.ranks[1];
  for (size_t i = 2; i < rank.inputs.size(); ++i) {
    EXPECT_EQ(rank.node(rank.inputs[i].node).shape,
              Shape({1, shape.groups / 2, shape.cached, shape.features}));
  }
  ExpectSame(s.g, sharded.ranks, "decoder");
}

// Scales and biases of all norms are stored in 16 bits and widened first.
TEST(ShardTest, WidenedScalesOfNormsAreNotSharedOutAndGathered) {
  constexpr int64_t kLayers = 12, kWidth = 96, kInner = 384;
  SmallGraph s;
  s.b.FoldConstants(false);
  std::mt19937 rng(5);
  const auto weight = [&](DType dtype, const Shape& shape) {
    std::vector<double> values(static_cast<size_t>(shape.elements()));
    for (double& v : values) v = std::uniform_real_distribution<double>(-0.2, 0.2)(rng);
    return s.b.Floats(dtype, shape, values);
  };
  const auto widened = [&] { return s.b.Cast(weight(DType::kF16, Shape({kWidth})), DType::kF32); };
  std::vector<ir::NodeId> scales, biases;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    scales.push_back(widened());
    biases.push_back(widened());
  }
  ir::NodeId x = s.In("x", Shape({8, kWidth}));
  for (size_t layer = 0; layer < kLayers; ++layer) {
    const ir::NodeId h = s.b.MatMul(x, weight(DType::kF32, Shape({kWidth, kInner})));
    const ir::NodeId y =
        s.b.Add(x, s.b.MatMul(s.b.Unary(TapeOp::kExp, h), weight(DType::kF32, Shape({kInner, kWidth}))));
    const ir::NodeId mean = s.b.Mean(s.b.Mul(y, y), {1}, true);
    const ir::NodeId normed = s.b.Mul(y, s.b.Unary(TapeOp::kRsqrt, mean));
    x = s.b.Add(s.b.Mul(normed, scales[layer]), biases[layer]);
  }
  s.Out("y", x);
  const ShardedGraph sharded = Sharded(s.g, 2);
  EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), kLayers) << sharded.text;
  EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllGather), 0) << sharded.text;
  ExpectSame(s.g, sharded.ranks, "norms");
}

// Two key heads on four, six or eight devices: each device holds one, and nothing more is sent.
TEST(ShardTest, FewHeadsOfKeysAreHeldBySeveralDevicesEach) {
  for (int64_t devices : {4, 6, 8}) {
    DecoderShape shape;
    shape.heads = 24;
    shape.hidden = 96;
    shape.inner = 192;
    SmallGraph s;
    MakeDecoder(shape, &s);
    const ShardedGraph sharded = Sharded(s.g, devices);
    EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), 2 * shape.layers + 1) << sharded.text;
    for (const ir::Graph& rank : sharded.ranks) {
      for (const ir::StatePair& pair : rank.states) {
        EXPECT_EQ(rank.node(rank.inputs[static_cast<size_t>(pair.input)].node).shape,
                  Shape({1, 1, shape.cached, shape.features}));
      }
    }
    const std::string text =
        "each part on " + std::to_string(devices / 2) + " devices: state k0 and 3 more, which has 2 heads";
    EXPECT_NE(sharded.text.find(text), std::string::npos) << sharded.text;
    ExpectSame(s.g, sharded.ranks, std::to_string(devices) + " devices");
  }
}

// Summands that two devices hold would be added twice.
TEST(ShardTest, PartsOnSeveralDevicesAreNeverSummed) {
  SmallGraph s;
  const ir::NodeId lhs = s.In("x", {4, 8}), rhs = s.In("w", {8, 6}), y = s.b.MatMul(lhs, rhs);
  s.Out("y", y);
  const Shape &x = s.g.node(lhs).shape, &w = s.g.node(rhs).shape;
  const auto rules = [&](int slot, const Shape& shape, int dim, int64_t copies) {
    const Sharding sharding = SplitOf(shape, dim, shape[dim] * copies / 4, 4, copies);
    return RulesWith(s.g, s.g.node(y), slot, sharding, 4).size();
  };
  EXPECT_EQ(rules(0, x, 1, 1), 1u);
  EXPECT_EQ(rules(0, x, 1, 2), 0u);
  EXPECT_EQ(rules(1, w, 0, 2), 0u);
  EXPECT_EQ(rules(1, w, 1, 2), 1u);
  EXPECT_EQ(rules(0, x, 0, 2), 1u);
}

// A vocabulary and an inner dim that the device count does not divide are padded; results stay the same.
TEST(ShardTest, UnevenDimsArePadded) {
  for (int64_t devices : {2, 3, 4}) {
    DecoderShape shape;
    shape.hidden = 96;
    shape.heads = 12;
    shape.groups = 12;
    shape.inner = 211;
    shape.vocabulary = 1499;
    SmallGraph s;
    MakeDecoder(shape, &s);
    const ShardedGraph sharded = Sharded(s.g, devices);
    const std::string by = "padded, for " + std::to_string(devices) + " devices to divide it: ";
    EXPECT_NE(sharded.text.find(by + "211 to 2"), std::string::npos) << sharded.text;
    EXPECT_NE(sharded.text.find(by + "1499 to "), std::string::npos) << sharded.text;
    EXPECT_LT(WeightBytes(sharded.ranks[0]), 1.1 * static_cast<double>(WeightBytes(s.g) / devices) + 3000)
        << sharded.text;
    EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), 2 * shape.layers + 1) << sharded.text;
    ExpectSame(s.g, sharded.ranks, std::to_string(devices) + " devices");
  }
}

TEST(ShardTest, PaddingChangesNoResult) {
  int padded = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SmallGraph s;
    if (seed % 3 == 0) {
      DecoderShape shape;
      shape.inner = 61 + seed;
      shape.vocabulary = 301 + seed;
      shape.parallel = seed % 2 == 0;
      MakeDecoder(shape, &s);
    } else {
      MakeRandom(seed, &s);
    }
    SeparateWeights(&s.g);
    for (int64_t devices : {2, 5, 7}) {
      ir::Graph graph = s.g;
      const auto dims = PadUneven(Costs(graph, devices), {}, &graph);
      padded += dims.empty() ? 0 : 1;
      ASSERT_EQ(ir::Validate(graph), "") << seed;
      const ir::Values inputs = passes::RandomInputs(s.g);
      const auto want = ir::EvaluateGraph(s.g, inputs), got = ir::EvaluateGraph(graph, inputs);
      ASSERT_TRUE(want.ok() && got.ok()) << seed;
      for (size_t o = 0; o < want->size(); ++o)
        ExpectNear(*(*want)[o], *(*got)[o], "seed " + std::to_string(seed));
    }
  }
  EXPECT_GT(padded, 30);
}

// Synthetic weights continue beyond their end, but values computed there are not summed.
TEST(ShardTest, PaddedSyntheticWeightsAddNothing) {
  SmallGraph s;
  const auto synthetic = [&](const Shape& shape, uint64_t key) {
    auto data = std::make_shared<ir::ConstantData>();
    data->shape = shape;
    data->synthetic = true;
    data->synthetic_key = key;
    data->synthetic_scale = 0.05f;
    return s.b.Constant(data);
  };
  const ir::NodeId both = synthetic(Shape({64, 602}), 1);  // two weights side by side
  const ir::NodeId x = s.In("x", Shape({3, 64}));
  const ir::NodeId gate = s.b.MatMul(x, s.b.Slice(both, 1, 0, 1, 301)),
                   up = s.b.MatMul(x, s.b.Slice(both, 1, 301, 1, 301));
  const ir::NodeId inner = s.b.Mul(s.b.Unary(TapeOp::kExp, gate), up);
  s.Out("y", s.b.MatMul(inner, synthetic(Shape({301, 64}), 2)));
  for (int64_t devices : {2, 3}) {
    const ShardedGraph sharded = Sharded(s.g, devices);
    EXPECT_NE(sharded.text.find("padded"), std::string::npos) << sharded.text;
    ExpectSame(s.g, sharded.ranks, std::to_string(devices) + " devices");
  }
}

// Whether all indices of a device are in range, up to its first exchange.
bool AllInRange(const ir::Graph& rank, const ir::Values& inputs) {
  ir::Values values(static_cast<size_t>(rank.size()));
  for (ir::NodeId id : rank.TopologicalOrder()) {
    const ir::Node& node = rank.node(id);
    if (node.op == ir::Op::kCollective) return true;
    ir::Values in;
    for (ir::NodeId i : node.inputs) in.push_back(values[static_cast<size_t>(i)]);
    if (node.op == ir::Op::kInput) {
      values[static_cast<size_t>(id)] = inputs[static_cast<size_t>(node.As<ir::InputAttrs>().index)];
      continue;
    }
    auto value = ir::EvaluateNode(node, in);
    if (!value.ok()) return false;
    values[static_cast<size_t>(id)] = value.Take();
  }
  return true;
}

// In a table that is padded to 1536 rows, row 1499 stays out of range, and row -1 stays the last real row.
TEST(ShardTest, RowsThatPaddingAddsAreOutOfRange) {
  SmallGraph s;
  const ir::NodeId ids = s.b.Input("ids", DType::kI64, Shape({4}));
  std::vector<double> rows(1499 * 96);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<double>(i % 7919);
  const ir::NodeId table = s.b.Floats(DType::kF32, Shape({1499, 96}), rows);
  s.g.outputs.push_back({"y", s.b.Gather(table, ids, 0)});
  const ShardedGraph sharded = Sharded(s.g, 4);
  ASSERT_NE(sharded.text.find("padded"), std::string::npos) << sharded.text;
  for (const int64_t id :
       {int64_t{0}, int64_t{1498}, int64_t{-1}, int64_t{-1499}, int64_t{1499}, int64_t{-1500}}) {
    const std::vector<int64_t> numbers = {1, id, 2, 3};
    const auto* bytes = reinterpret_cast<const uint8_t*>(numbers.data());
    const ir::Values inputs = {
        ir::ConstantData::Own(DType::kI64, Shape({4}), std::vector<uint8_t>(bytes, bytes + 32))};
    const auto want = ir::EvaluateGraph(s.g, inputs);
    bool found = true;
    for (const ir::Graph& rank : sharded.ranks) found = found && AllInRange(rank, inputs);
    EXPECT_EQ(want.ok(), found) << id;
    if (want.ok()) {
      const auto got = EvaluateMesh(sharded.ranks, std::vector<ir::Values>(4, inputs));
      ExpectNear(*(*want)[0], *got[0][0], std::to_string(id));
    }
  }
}

// In a small model too, all devices that share a key head compute its keys and values instead of sending
// them.
TEST(ShardTest, FewHeadsOfSmallModelsAreNotSentEither) {
  DecoderShape shape;
  shape.hidden = 64;
  shape.heads = 4;
  shape.groups = 2;
  shape.features = 16;
  shape.inner = 176;
  shape.vocabulary = 512;
  SmallGraph s;
  MakeDecoder(shape, &s);
  const ShardedGraph sharded = Sharded(s.g, 4);
  EXPECT_LE(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), 2 * shape.layers + 1) << sharded.text;
  EXPECT_LE(CountOf(sharded.ranks[0], CollectiveOp::kAllGather), 2) << sharded.text;
  ExpectSame(s.g, sharded.ranks, "small decoder");
}

TEST(ShardTest, AttentionAndMlpBesideOneAnotherShareAnAllReduce) {
  DecoderShape shape;
  shape.hidden = 96;
  shape.inner = 192;
  shape.parallel = true;
  SmallGraph s;
  MakeDecoder(shape, &s);
  const ShardedGraph sharded = Sharded(s.g, 2);
  EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), shape.layers + 1) << sharded.text;
  ExpectSame(s.g, sharded.ranks, "parallel decoder");
}

TEST(ShardTest, DecodersOfAllShapesComputeWhatTheyDid) {
  for (int64_t devices : {2, 3, 4, 8}) {
    for (int64_t heads : {1, 3, 4, 8, 12}) {
      for (int64_t groups : {1, 2, 3, 4}) {
        if (heads % groups != 0) continue;
        DecoderShape shape;
        shape.heads = heads;
        shape.groups = groups;
        shape.hidden = 40;
        shape.inner = 90;
        shape.vocabulary = 61;
        shape.layers = 1;
        SmallGraph s;
        MakeDecoder(shape, &s);
        ExpectSame(s.g, Sharded(s.g, devices).ranks,
                   std::to_string(devices) + " devices, " + std::to_string(heads) + " heads, " +
                       std::to_string(groups) + " groups");
      }
    }
  }
}

// A small weight and many columns: on two or four devices, exchanging sums of 16 KB saves half of the work or
// more.
TEST(ShardTest, WorkIsDividedWhereACollectiveCostsLess) {
  constexpr int64_t kRows = 16, kInner = 64, kColumns = 4096;
  for (int64_t devices : {2, 4}) {
    SmallGraph s;
    const std::vector<double> values(kRows * kInner, 0.01);
    const ir::NodeId weight = s.b.Floats(DType::kF32, Shape({kRows, kInner}), values);
    const ir::NodeId y = s.b.MatMul(weight, s.In("x", Shape({kInner, kColumns})));
    s.Out("y", s.b.Reduce(ir::ReduceKind::kSum, s.b.Unary(TapeOp::kExp, y), {0}, true));
    const ShardedGraph sharded = Sharded(s.g, devices);
    EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), 1) << sharded.text;
    for (ir::NodeId id = 0; id < sharded.ranks[0].size(); ++id) {
      const ir::Node& node = sharded.ranks[0].node(id);
      if (node.op != ir::Op::kMatMul) continue;
      EXPECT_EQ(node.shape.elements(), kRows * kColumns / devices) << sharded.text;
    }
    ExpectSame(s.g, sharded.ranks, std::to_string(devices) + " devices");
  }
}

TEST(ShardTest, ConvolutionsAreSharedOutByChannels) {
  for (int64_t devices : {2, 3, 4}) {
    SmallGraph s;
    MakeConvNet(24, 30, &s);
    const ShardedGraph sharded = Sharded(s.g, devices);
    for (ir::NodeId id = 0; id < sharded.ranks[0].size(); ++id) {
      const ir::Node& node = sharded.ranks[0].node(id);
      if (node.op != ir::Op::kConv || node.As<ir::ConvAttrs>().groups == 1) continue;
      EXPECT_EQ(node.shape[1], 2 * 24 / devices) << sharded.text;
    }
    ExpectSame(s.g, sharded.ranks, std::to_string(devices) + " devices");
  }
}

// Collectives run in order, so an output must not come after collectives of later nodes.
TEST(ShardTest, AnOutputIsGatheredAsSoonAsItIsThere) {
  SmallGraph s;
  const auto weight = [&](int64_t rows, int64_t columns) {
    return s.b.Floats(DType::kF32, Shape({rows, columns}),
                      std::vector<double>(static_cast<size_t>(rows * columns), 0.01));
  };
  const ir::NodeId wide = s.b.MatMul(s.In("x", Shape({4, 96})), weight(96, 384));
  s.Out("wide", wide);
  s.Out("y", s.b.Unary(TapeOp::kExp, s.b.MatMul(s.b.Unary(TapeOp::kTanh, wide), weight(384, 97))));
  const ShardedGraph sharded = Sharded(s.g, 2);
  std::vector<CollectiveOp> order;
  for (ir::NodeId id = 0; id < sharded.ranks[0].size(); ++id) {
    const ir::Node& node = sharded.ranks[0].node(id);
    if (!node.dead && node.op == ir::Op::kCollective) order.push_back(node.As<ir::CollectiveAttrs>().op);
  }
  EXPECT_EQ(order, (std::vector<CollectiveOp>{CollectiveOp::kAllGather, CollectiveOp::kAllReduce}))
      << sharded.text;
  ExpectSame(s.g, sharded.ranks, "outputs");
}

TEST(ShardTest, WhatDoesNotDivideAndIsNotPaddedIsOnEveryDeviceAndNamed) {
  SmallGraph s;
  MakeDecoder({}, &s);
  const ShardedGraph sharded = Sharded(s.g, 7);
  for (const char* heads : {"w20 (", "w21 ("})
    EXPECT_NE(sharded.text.find(std::string("on every device: ") + heads), std::string::npos) << sharded.text;
  EXPECT_NE(sharded.text.find("no dim of it divides by 7"), std::string::npos) << sharded.text;
  ExpectSame(s.g, sharded.ranks, "7 devices");
}

TEST(ShardTest, ProgramsThatShareAStateShareItsSharding) {
  StateShardings states;
  ShardedGraph out;
  SmallGraph first, second;
  MakeDecoder({}, &first);
  DecoderShape other;
  other.tokens = 1;
  MakeDecoder(other, &second);
  ASSERT_TRUE(ShardGraph(first.g, 2, &states, &out).ok());
  // The second program takes the first one's choice, here one that it would not make itself.
  for (auto& [name, sharding] : states) sharding = kWhole;
  ASSERT_TRUE(ShardGraph(second.g, 2, &states, &out).ok());
  for (size_t i = 2; i < second.g.inputs.size(); ++i) {
    EXPECT_EQ(out.ranks[0].node(out.ranks[0].inputs[i].node).shape,
              second.g.node(second.g.inputs[i].node).shape);
  }
  ExpectSame(second.g, out.ranks, "whole states");
}

TEST(ShardTest, AModelWithCollectivesIsRefused) {
  SmallGraph s;
  s.Out("y", s.b.Collective(CollectiveOp::kAllReduce, s.In("x", {4}), 2));
  const Status status = RefuseCollectives(s.g);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(std::string(status.message()).find("--devices N"), std::string::npos);
}

// A table of 2,000 rows, which the devices divide, and 13 columns, which they do not.
void MakeTable(SmallGraph* s) {
  std::vector<double> values(2000 * 13);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 1013) + 1;
  const ir::NodeId ids = s->In("ids", Shape({3}), DType::kI64);
  s->Out("rows", s->b.Gather(s->b.Floats(DType::kF32, Shape({2000, 13}), values), ids, 0));
}

ir::Values Ids(int64_t first, int64_t second, int64_t third) {
  std::vector<uint8_t> bytes(24);
  for (size_t i = 0; i < 3; ++i) std::memcpy(&bytes[8 * i], i == 0 ? &first : i == 1 ? &second : &third, 8);
  return {ir::ConstantData::Own(DType::kI64, Shape({3}), bytes)};
}

TEST(ShardTest, RowsOfATableComeFromWhoHasThem) {
  SmallGraph s;
  MakeTable(&s);
  for (int64_t devices : {2, 4, 5}) {
    const ShardedGraph sharded = Sharded(s.g, devices);
    EXPECT_LT(WeightBytes(sharded.ranks[0]), WeightBytes(s.g) / devices + 100) << sharded.text;
    EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), 1);
    const std::vector<ir::Values> ids = {Ids(0, 999, 1000), Ids(-1, -2000, 1999), Ids(400, 401, 1500)};
    for (const ir::Values& in : ids) {
      const auto want = ir::EvaluateGraph(s.g, in);
      const auto got = EvaluateMesh(sharded.ranks, std::vector<ir::Values>(sharded.ranks.size(), in));
      ASSERT_EQ(got.size(), sharded.ranks.size());
      for (const ir::Values& rows : got) ExpectNear(*(*want)[0], *rows[0], "rows");
    }
  }
}

TEST(ShardTest, AnIndexThatIsOutOfRangeIsOutOfRangeOnADevice) {
  SmallGraph s;
  MakeTable(&s);
  for (int64_t wrong : {2000, -2001, 1 << 30}) {
    EXPECT_FALSE(ir::EvaluateGraph(s.g, Ids(0, wrong, 1)).ok());
    for (ir::Graph rank : Sharded(s.g, 2).ranks) {
      for (ir::NodeId id = 0; id < rank.size(); ++id) {
        if (rank.node(id).op != ir::Op::kIndexedRead) continue;
        EXPECT_EQ(rank.node(id).As<ir::IndexedAttrs>().dims[0].extent, 1000);
        rank.SetOutput(0, id);  // before the devices' summands are added
        break;
      }
      rank.RemoveDead();
      EXPECT_TRUE(ir::EvaluateGraph(rank, Ids(0, 1999, -2000)).ok());
      EXPECT_FALSE(ir::EvaluateGraph(rank, Ids(0, wrong, 1)).ok()) << wrong;
    }
  }
}

// Any rule for any node, whatever it costs: choices that the search never makes must be right too.
void ExpectAnyAssignment(ir::Graph graph, int64_t devices, uint32_t seed) {
  SeparateWeights(&graph);
  const Costs costs(graph, devices);
  const Candidates candidates = FindCandidates(graph, costs, {});
  Assignment assignment = Assign(graph, candidates, costs, {});
  std::mt19937 rng(seed);
  for (Step& step : assignment.steps) {
    const ir::Node& node = graph.node(step.node);
    const size_t rules = candidates.rules[static_cast<size_t>(step.node)].size();
    const auto any = [&](size_t n) {
      return static_cast<int>(std::uniform_int_distribution<size_t>(0, n - 1)(rng));
    };
    if (node.op == ir::Op::kInput) {
      const auto& shardings = candidates.shardings[static_cast<size_t>(step.node)];
      const bool is_state = PairOfInput(graph, static_cast<size_t>(node.As<ir::InputAttrs>().index)) >= 0;
      step.choice = is_state ? any(shardings.size()) : 0;
      if (shardings[static_cast<size_t>(step.choice)] == kPartial) step.choice = 0;
    } else {
      step.choice = node.op == ir::Op::kView ? 1 + any(rules) : any(rules);
    }
  }
  std::vector<ir::Graph> ranks;
  for (int64_t r = 0; r < devices; ++r) {
    auto rank = RankGraph(graph, candidates, costs, assignment, r);
    ASSERT_TRUE(rank.ok()) << rank.status().message();
    ranks.push_back(rank.Take());
  }
  ExpectSame(graph, ranks, std::to_string(devices) + " devices, seed " + std::to_string(seed));
}

TEST(ShardTest, RandomGraphsKeepTheirMeaning) {
  for (uint32_t seed = 0; seed < 150 && !HasFailure(); ++seed) {
    SmallGraph s;
    MakeRandom(seed, &s);
    const int64_t devices = 2 + seed % 3;
    ExpectSame(s.g, Sharded(s.g, devices).ranks, "seed " + std::to_string(seed));
    ExpectAnyAssignment(s.g, devices, seed);
  }
}

TEST(ShardTest, AnyShardingOfAModelKeepsItsMeaning) {
  for (uint32_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    SmallGraph decoder, net;
    DecoderShape shape;
    shape.layers = 1;
    shape.parallel = seed % 2 != 0;
    if (seed % 3 == 2) shape.heads = 8;  // on four devices each key head is on two
    MakeDecoder(shape, &decoder);
    ExpectAnyAssignment(decoder.g, 2 + seed % 3, seed);
    MakeConvNet(12, 18, &net);
    ExpectAnyAssignment(net.g, 2 + seed % 3, seed);
  }
}

}  // namespace
}  // namespace rondo::shard
