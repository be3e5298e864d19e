// Graphs with packed weights, from models or from --quantize-weights. Every device's share stays packed, and
// numbers are not rounded again.
#include "compiler/ir/packed.h"
#include "compiler/quantise/quantise.h"
#include "tests/shard/same_results.h"

namespace rondo::shard {
namespace {

// Rounds the weights of the graph's matmuls.
void Round(PackedType type, int64_t block, ir::Graph* graph) {
  passes::PassOptions options;
  options.quantize = type;
  options.quantize_block = block;
  options.target = HostTraits();
  ASSERT_GT(passes::QuantizeWeights(graph, options)->changes, 0);
}

int CountPacked(const ir::Graph& graph) {
  int packed = 0;
  for (ir::NodeId id = 0; id < graph.size(); ++id)
    packed += graph.IsConstant(id) && graph.node(id).As<ir::ConstantAttrs>().data->packed != nullptr;
  return packed;
}

DecoderShape Wide() {
  DecoderShape shape;
  shape.heads = 16;
  shape.groups = 8;
  shape.features = 8;
  shape.hidden = 256;
  shape.inner = 512;
  return shape;
}

TEST(PackedShards, AreSharesOfTheCodes) {
  const struct {
    PackedType type;
    int64_t block;
  } cases[] = {{PackedType::kU4, 32}, {PackedType::kU4, 0}, {PackedType::kU2, 128}, {PackedType::kE4M3, 0}};
  for (const auto& c : cases) {
    for (int64_t devices : {2, 4}) {
      SmallGraph s;
      MakeDecoder(Wide(), &s);
      Round(c.type, c.block, &s.g);
      const std::string what = std::string(Name(c.type)) + " on " + std::to_string(devices);
      const int64_t whole = WeightBytes(s.g);
      const ShardedGraph sharded = Sharded(s.g, devices);
      for (const ir::Graph& rank : sharded.ranks) {
        // Query, key and value weights of each layer are separate now.
        EXPECT_GE(CountPacked(rank), CountPacked(s.g)) << what << sharded.text;
        EXPECT_LE(WeightBytes(rank), whole / devices + 20000) << what << sharded.text;
      }
      ExpectSame(s.g, sharded.ranks, what);
    }
  }
}

// 3 devices do not divide an inner dim of 400, so it is padded to whole blocks for each.
TEST(PackedShards, ArePaddedWhereDevicesDoNotDivideThem) {
  DecoderShape shape = Wide();
  shape.inner = 400;
  SmallGraph s;
  MakeDecoder(shape, &s);
  Round(PackedType::kU4, 32, &s.g);
  const ShardedGraph sharded = Sharded(s.g, 3);
  EXPECT_NE(sharded.text.find("padded, for 3 devices to divide it: 400 to 432"), std::string::npos)
      << sharded.text;
  for (const ir::Graph& rank : sharded.ranks) EXPECT_GE(CountPacked(rank), CountPacked(s.g)) << sharded.text;
  ExpectSame(s.g, sharded.ranks, "padded");
}

// Shares of 200: neither blocks of 128 nor smaller blocks down to 16 divide them.
TEST(PackedShards, AreNotUnpackedWhereTheirBlocksDoNotDivide) {
  SmallGraph s;
  std::vector<double> numbers(400 * 256);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i));
  const ir::NodeId up = s.b.Floats(DType::kF32, {256, 400}, numbers);
  const ir::NodeId down = s.b.Floats(DType::kF32, {400, 256}, numbers);
  const ir::NodeId h = s.b.Unary(TapeOp::kTanh, s.b.MatMul(s.In("x", {2, 256}), up));
  s.Out("y", s.b.MatMul(h, down));
  Round(PackedType::kU4, 128, &s.g);
  const ShardedGraph sharded = Sharded(s.g, 2);
  for (ir::NodeId id = 0; id < sharded.ranks[0].size(); ++id) {
    const ir::Node& node = sharded.ranks[0].node(id);
    if (node.op != ir::Op::kConstant) continue;
    const auto& data = node.As<ir::ConstantAttrs>().data;
    EXPECT_TRUE(data->byte_size() < 4096 || data->packed != nullptr) << ir::Dump(sharded.ranks[0]);
  }
  ExpectSame(s.g, sharded.ranks, "blocks of 128");
}

// All programs of a plan use the same share of a weight, even if each alone would choose another.
TEST(PackedShards, AreThoseThatAProgramBeforeHolds) {
  SmallGraph first, second;
  for (SmallGraph* s : {&first, &second}) {
    auto data = std::make_shared<ir::ConstantData>();
    data->shape = {256, 256};
    data->synthetic = true;
    data->synthetic_scale = 0.1f;
    data->name = "w";
    const ir::NodeId x = s->In("x", {s == &first ? 512 : 1, 256});
    s->Out("y", s->b.Unary(TapeOp::kTanh, s->b.MatMul(x, s->b.Constant(data))));
  }
  const auto share_of = [](const ShardedGraph& sharded) {
    for (ir::NodeId id = 0; id < sharded.ranks[0].size(); ++id) {
      if (sharded.ranks[0].IsConstant(id)) return sharded.ranks[0].node(id).shape;
    }
    return Shape();
  };
  StateShardings states;
  WeightShardings weights = {{"w f32 256 256", {SplitOf(Shape({256, 256}), 0, 128, 2)}}};
  ShardedGraph alone, after;
  ASSERT_TRUE(ShardGraph(second.g, 2, &states, &alone).ok());
  ASSERT_TRUE(ShardGraph(second.g, 2, &states, &after, {}, nullptr, &weights).ok());
  EXPECT_EQ(share_of(alone), Shape({256, 128})) << alone.text;
  EXPECT_EQ(share_of(after), Shape({128, 256})) << after.text;
  ASSERT_TRUE(ShardGraph(first.g, 2, &states, &after, {}, nullptr, &weights).ok());
  EXPECT_EQ(weights.size(), 1u);
}

}  // namespace
}  // namespace rondo::shard
