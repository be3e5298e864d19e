// Graphs that are the same on all devices except for lookups (--weights gather), and sums over sharded
// experts.
#include <cstring>

#include "compiler/ir/loop.h"
#include "compiler/shard/on_every_device.h"
#include "tests/shard/same_results.h"

namespace rondo::shard {
namespace {

// Rows of 24 numbers, among them both zeros, NaN and infinity.
ir::NodeId Table(SmallGraph* s, int64_t rows) {
  std::vector<double> values(static_cast<size_t>(rows * 24));
  const double special[] = {-0.0, 0.0, NAN, -INFINITY, 1e-42};
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % 7 < 5 && i % 3 == 0 ? special[i % 5] : static_cast<double>(i % 4093);
  const ir::NodeId table = s->b.Floats(DType::kF32, Shape({rows, 24}), values);
  s->g.node(table).name = "table";
  return table;
}

ir::Values Numbers(const std::vector<int64_t>& numbers) {
  std::vector<uint8_t> bytes(8 * numbers.size());
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return {ir::ConstantData::Own(DType::kI64, Shape({static_cast<int64_t>(numbers.size())}), bytes)};
}

TEST(LookupsOnEveryDevice, ReadTheBitsOfOneDeviceFromShares) {
  for (const int64_t rows : {1200, 1201}) {
    SmallGraph s;
    const ir::NodeId ids = s.In("ids", Shape({4}), DType::kI64);
    s.Out("y", s.b.Gather(Table(&s, rows), ids, 0));
    for (const int64_t devices : {2, 3, 5}) {
      CopiedGraph copied;
      ASSERT_TRUE(OnEveryDevice(s.g, devices, {}, &copied).ok());
      EXPECT_EQ(copied.text, "rows of table are read where they are, and sent to all");
      const int64_t share = (rows + devices - 1) / devices * 24 * 4;
      EXPECT_LE(WeightBytes(copied.ranks[0]), share + 200) << rows << " on " << devices;
      for (int64_t first = -rows; first < rows; first += 97) {
        const ir::Values in = Numbers({first, first + 1, rows - 1, -rows});
        const auto want = ir::EvaluateGraph(s.g, in);
        const auto got = EvaluateMesh(copied.ranks, std::vector<ir::Values>(copied.ranks.size(), in));
        for (const ir::Values& values : got)
          ASSERT_TRUE(std::ranges::equal(values[0]->bytes, (*want)[0]->bytes)) << first << " of " << rows;
      }
    }
  }
}

TEST(LookupsOnEveryDevice, AreLeftWhereMostOfATableIsRead) {
  SmallGraph s;
  const ir::NodeId ids = s.In("ids", Shape({400}), DType::kI64);
  s.Out("y", s.b.Gather(Table(&s, 1200), ids, 0));
  CopiedGraph copied;
  ASSERT_TRUE(OnEveryDevice(s.g, 2, {}, &copied).ok());
  EXPECT_EQ(copied.text, "");
  EXPECT_EQ(CountOf(copied.ranks[1], CollectiveOp::kAllReduce), 0);
}

// A mixture of 4 experts: each device holds whole experts or a share of all, and the sum is sent once.
TEST(ShardTest, ExpertsAreSummedWhereTheyAreAndSentOnce) {
  for (const int64_t devices : {2, 4, 8}) {
    SmallGraph s;
    std::vector<double> numbers(4 * 48 * 64);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i));
    const ir::NodeId x = s.In("x", Shape({1, 5, 48})), shares = s.In("shares", Shape({4, 5, 1}));
    const ir::NodeId up = s.b.Floats(DType::kF32, Shape({4, 48, 64}), numbers);
    const ir::NodeId down = s.b.Floats(DType::kF32, Shape({4, 64, 48}), numbers);
    const ir::NodeId h = s.b.MatMul(s.b.Unary(TapeOp::kTanh, s.b.MatMul(x, up)), down);
    s.Out("y", s.b.Reduce(ir::ReduceKind::kSum, s.b.Mul(h, shares), {0}, false));
    const ShardedGraph sharded = Sharded(s.g, devices);
    EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), 1) << sharded.text;
    EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllGather), 0) << sharded.text;
    EXPECT_LE(WeightBytes(sharded.ranks[0]), WeightBytes(s.g) / devices + 100) << sharded.text;
    for (ir::NodeId id = 0; id < sharded.ranks[0].size(); ++id) {
      const ir::Node& node = sharded.ranks[0].node(id);
      EXPECT_TRUE(node.op != ir::Op::kCollective || node.shape.elements() == 5 * 48);
    }
    ExpectSame(s.g, sharded.ranks, std::to_string(devices) + " devices");
  }
}

// Weights that a loop reads in every round lie on every device; the report counts and names them.
TEST(ShardTest, WeightsOfLoopsAreCountedAndNamed) {
  SmallGraph s;
  const ir::NodeId x = s.In("x", Shape({2, 64}));
  const std::vector<double> numbers(64 * 64, 0.01);
  ir::LoopMaker maker(&s.b, 20);
  const ir::NodeId h = maker.Carried(x);
  const ir::NodeId w = s.b.Floats(DType::kF32, Shape({64, 64}), numbers);
  s.g.node(w).name = "again";
  const ir::NodeId next = s.b.Unary(TapeOp::kTanh, s.b.MatMul(h, w));
  std::vector<ir::NodeId> last, all;
  ASSERT_TRUE(maker.Finish({next}, {{next, false}}, &last, &all));
  s.Out("y", s.b.MatMul(last[0], s.b.Floats(DType::kF32, Shape({64, 64}), numbers)));
  const ShardedGraph sharded = Sharded(s.g, 2);
  EXPECT_NE(sharded.text.find("of 32.8 kB of weights"), std::string::npos) << sharded.text;
  EXPECT_NE(sharded.text.find("again (16.4 kB): it is read in a loop"), std::string::npos) << sharded.text;
}

// One device's share of a weight is too small for f16, the other's is not. Both compute in the type of the
// whole weight.
TEST(ShardTest, DevicesAgreeAboutThePrecisionOfTheirShares) {
  SmallGraph s;
  std::vector<double> numbers(64 * 512);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = (i % 512 < 256 ? 1e-7 : 0.1) * std::sin(i);
  const ir::NodeId x = s.In("x", Shape({2, 64}));
  s.Out("y", s.b.MatMul(x, s.b.Floats(DType::kF32, Shape({64, 512}), numbers)));
  ShardedGraph sharded = Sharded(s.g, 2);
  passes::PassOptions options;
  options.precision = DType::kF16;
  std::vector<std::string> dumps;
  for (ir::Graph& rank : sharded.ranks) {
    ASSERT_TRUE(passes::LowerPrecision(&rank, options).ok());
    std::string types;
    for (ir::NodeId id = 0; id < rank.size(); ++id)
      types += std::string(ir::Name(rank.node(id).op)) + " " + Name(rank.node(id).dtype) + "\n";
    dumps.push_back(types);
  }
  EXPECT_EQ(dumps[0], dumps[1]);
}

// The shares of two weights are equal on one device but not on the other. Both devices run the same nodes.
TEST(ShardTest, SharesThatAreEqualOnOneDeviceAreNotOne) {
  SmallGraph s;
  std::vector<double> numbers(64 * 256), others;
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i));
  others = numbers;
  for (size_t i = 0; i < others.size(); ++i) others[i] += i % 256 < 128 ? 0 : 1;
  const ir::NodeId x = s.In("x", Shape({2, 64}));
  const ir::NodeId a = s.b.MatMul(x, s.b.Floats(DType::kF32, Shape({64, 256}), numbers));
  const ir::NodeId c = s.b.MatMul(x, s.b.Floats(DType::kF32, Shape({64, 256}), others));
  s.Out("y", a);
  s.Out("z", c);
  ShardedGraph sharded = Sharded(s.g, 2);
  for (ir::Graph& rank : sharded.ranks) {
    ASSERT_TRUE(passes::EliminateCommonSubexpressions(&rank, {}).ok());
    EXPECT_EQ(CountOf(rank, CollectiveOp::kAllGather), 2) << ir::Dump(rank);
    rank.Compact();
  }
  ExpectSame(s.g, sharded.ranks, "two weights");
}

}  // namespace
}  // namespace rondo::shard
