// A graph and its stages compute the same bits. Later stages receive values in the order in which a stage
// sends them.
#include "compiler/shard/stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "compiler/ir/evaluate.h"
#include "compiler/shard/shard_graph.h"
#include "compiler/shard/stage_graph.h"
#include "tests/shard/small_models.h"

namespace rondo::shard {
namespace {

using Data = std::shared_ptr<const ir::ConstantData>;
using ir::NodeId;
using Queues = std::map<std::vector<uint32_t>, std::deque<Data>>;  // values in flight, by group

bool IsSend(const ir::Node& node) {
  return node.op == ir::Op::kCollective && node.As<ir::CollectiveAttrs>().op == CollectiveOp::kSend;
}

// Evaluates a stage. Sends go into `queues`, and receives come from them. Returns the values of all nodes.
std::vector<Data> EvaluateStage(const ir::Graph& stage, const ir::Values& inputs, Queues* queues) {
  EXPECT_EQ(ir::Validate(stage), "") << ir::Dump(stage);
  std::vector<Data> values(static_cast<size_t>(stage.size()));
  for (NodeId id : stage.TopologicalOrder()) {
    const ir::Node& node = stage.node(id);
    ir::Values in;
    for (NodeId i : node.inputs) in.push_back(values[static_cast<size_t>(i)]);
    Data& value = values[static_cast<size_t>(id)];
    if (node.op == ir::Op::kInput) {
      value = inputs[static_cast<size_t>(node.As<ir::InputAttrs>().index)];
    } else if (!IsSend(node)) {
      auto made = ir::EvaluateNode(node, in);
      EXPECT_TRUE(made.ok()) << made.status().message();
      if (!made.ok()) return {};
      value = made.Take();
    } else if (!in.empty()) {
      (*queues)[node.As<ir::CollectiveAttrs>().group].push_back(ir::WithBytes(in[0]));
    } else {
      auto& queue = (*queues)[node.As<ir::CollectiveAttrs>().group];
      EXPECT_FALSE(queue.empty()) << "nobody has sent " << node.sources[0];
      if (queue.empty()) return {};
      value = queue.front();
      queue.pop_front();
      EXPECT_TRUE(value->shape == node.shape && value->dtype == node.dtype) << node.sources[0];
    }
  }
  return values;
}

// The rows of a whole tensor from `first` on, in the given shape.
Data Rows(const Data& whole, const Shape& shape, int64_t first) {
  const int64_t size = shape.elements() * ByteSize(whole->dtype);
  const auto begin = whole->bytes.begin() + first * size / std::max<int64_t>(shape[0], 1);
  return ir::ConstantData::Own(whole->dtype, shape, std::vector<uint8_t>(begin, begin + size));
}

// Runs the stages one after another. Expects every output and every row of every state to be as in the whole
// graph.
void ExpectSame(const ir::Graph& whole, const std::vector<ir::Graph>& stages, const std::string& what) {
  const ir::Values inputs = passes::RandomInputs(whole);
  const auto want = ir::EvaluateGraph(whole, inputs);
  ASSERT_TRUE(want.ok()) << want.status().message();
  std::map<std::string, Data> input_of, output_of;
  for (size_t i = 0; i < inputs.size(); ++i) input_of[whole.inputs[i].name] = inputs[i];
  for (size_t o = 0; o < want->size(); ++o) output_of[whole.outputs[o].name] = (*want)[o];
  std::map<std::string, int64_t> input_rows, output_rows;
  Queues queues;
  for (const ir::Graph& stage : stages) {
    ir::Values own;
    for (const ir::GraphInput& in : stage.inputs) {
      const Shape& shape = stage.node(in.node).shape;
      const Data& all = input_of.at(in.name);
      if (shape == all->shape) {
        own.push_back(all);
      } else {
        own.push_back(Rows(all, shape, input_rows[in.name]));
        input_rows[in.name] += shape[0];
      }
    }
    const std::vector<Data> values = EvaluateStage(stage, own, &queues);
    ASSERT_FALSE(testing::Test::HasFailure()) << what;
    for (const ir::GraphOutput& out : stage.outputs) {
      const Data got = ir::WithBytes(values[static_cast<size_t>(out.node)]);
      Data expected = output_of.at(out.name);
      if (!(got->shape == expected->shape)) expected = Rows(expected, got->shape, output_rows[out.name]);
      output_rows[out.name] += got->shape.rank > 0 ? got->shape[0] : 1;
      ASSERT_TRUE(got->shape == expected->shape) << what << " " << out.name;
      EXPECT_TRUE(std::equal(got->bytes.begin(), got->bytes.end(), expected->bytes.begin()))
          << what << " " << out.name;
    }
  }
  for (const auto& [group, queue] : queues)
    EXPECT_TRUE(queue.empty()) << what << ": nobody takes what is sent";
  for (const auto& [name, data] : output_of)
    EXPECT_EQ(output_rows[name], data->shape.rank > 0 ? data->shape[0] : 1) << what << " " << name;
}

StagedGraph Staged(const ir::Graph& graph, int stages, StagePlaces* places = nullptr) {
  StagePlaces own;
  StagedGraph out;
  const Status status = CutIntoStages(graph, stages, true, places == nullptr ? &own : places, &out);
  EXPECT_TRUE(status.ok()) << status.message();
  return out;
}

int64_t WeightBytes(const ir::Graph& graph) {
  int64_t bytes = 0;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (graph.IsConstant(id)) bytes += graph.node(id).As<ir::ConstantAttrs>().data->byte_size();
  }
  return bytes;
}

int SendsOf(const ir::Graph& graph) {
  int n = 0;
  for (NodeId id = 0; id < graph.size(); ++id) n += IsSend(graph.node(id)) && !graph.node(id).inputs.empty();
  return n;
}

TEST(StagesTest, DecodersComputeWhatTheyDidOnAnyNumberOfStages) {
  for (const bool stacked : {false, true}) {
    for (int stages = 2; stages <= 6; ++stages) {
      DecoderShape shape;
      shape.layers = 4;
      shape.stacked = stacked;
      SmallGraph s;
      MakeDecoder(shape, &s);
      ExpectSame(s.g, Staged(s.g, stages).stages,
                 std::to_string(stages) + " stages" + (stacked ? ", stacked" : ""));
    }
  }
}

TEST(StagesTest, StatesAndWeightsAreWhereTheyAreUsedAndNowhereElse) {
  for (const bool stacked : {false, true}) {
    DecoderShape shape;
    shape.layers = 4;
    shape.stacked = stacked;
    SmallGraph s;
    MakeDecoder(shape, &s);
    const StagedGraph staged = Staged(s.g, 2);
    int64_t weights = 0, rows = 0;
    for (const ir::Graph& stage : staged.stages) {
      weights += WeightBytes(stage);
      EXPECT_LT(WeightBytes(stage), 0.6 * static_cast<double>(WeightBytes(s.g))) << staged.text;
      EXPECT_EQ(stage.states.size(), stacked ? 2u : 4u) << staged.text;
      for (const ir::StatePair& pair : stage.states)
        rows += stage.node(stage.inputs[static_cast<size_t>(pair.input)].node).shape[0];
    }
    EXPECT_EQ(rows, 8) << staged.text;
    // The head uses the embedding's table too, so both stages hold it.
    const int64_t table = shape.vocabulary * shape.hidden * 4;
    EXPECT_LT(weights, WeightBytes(s.g) + table + 500) << staged.text;
    EXPECT_NE(staged.text.find("on stages 0, 1: w1 (11.5 kB)"), std::string::npos) << staged.text;
    // One value crosses the cut: the residual.
    EXPECT_EQ(SendsOf(staged.stages[0]), 1) << staged.text;
    EXPECT_EQ(SendsOf(staged.stages[1]), 0) << staged.text;
  }
}

TEST(StagesTest, ConvolutionsWithLongConnectionsComputeWhatTheyDid) {
  for (int stages = 2; stages <= 5; ++stages) {
    SmallGraph s;
    MakeConvNet(24, 30, &s);
    ExpectSame(s.g, Staged(s.g, stages).stages, std::to_string(stages) + " stages");
  }
}

// Any ascending cut, whatever it costs: cuts that the search never chooses must be right too.
TEST(StagesTest, AnyCutKeepsTheMeaningOfAGraph) {
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SmallGraph s;
    MakeRandom(seed, &s);
    if (seed % 3 == 0) MakeConvNet(12, 18, &s);
    StageOrder order;
    order.position.assign(static_cast<size_t>(s.g.size()), -1);
    for (NodeId id : s.g.TopologicalOrder()) {
      const ir::Op op = s.g.node(id).op;
      if (op == ir::Op::kInput || op == ir::Op::kConstant || op == ir::Op::kView) continue;
      order.position[static_cast<size_t>(id)] = static_cast<int>(order.nodes.size());
      order.nodes.push_back(id);
    }
    const StageLoads loads(s.g, Costs(s.g, 2), order, FindStateRows(s.g));
    std::mt19937 rng(seed);
    std::vector<size_t> cuts;
    for (uint32_t i = 0; i <= seed % 4; ++i) {
      const size_t at = rng() % (order.nodes.size() + 1);
      if (!loads.Parts(at)) cuts.push_back(at);
    }
    std::sort(cuts.begin(), cuts.end());
    const StageCut cut = CutAt(s.g, order, cuts);
    const auto stages = StageGraphs(s.g, cut, FindTransfers(s.g, cut, seed % 2 == 0));
    ASSERT_TRUE(stages.ok()) << stages.status().message();
    ExpectSame(s.g, *stages, "seed " + std::to_string(seed));
  }
}

TEST(StagesTest, EachStageCanBeSharedOut) {
  DecoderShape shape;
  shape.layers = 4;
  shape.stacked = true;
  SmallGraph s;
  MakeDecoder(shape, &s);
  const StagedGraph staged = Staged(s.g, 2);
  for (uint32_t stage = 0; stage < 2; ++stage) {
    StateShardings shardings;
    ShardedGraph sharded;
    const Status status = ShardGraph(staged.stages[stage], 2, &shardings, &sharded, {stage, 2});
    ASSERT_TRUE(status.ok()) << status.message();
    for (size_t rank = 0; rank < 2; ++rank) {
      const ir::Graph& graph = sharded.ranks[rank];
      NodeId last = ir::kNoNode;
      for (NodeId id : graph.TopologicalOrder()) {
        const ir::Node& node = graph.node(id);
        if (node.op != ir::Op::kCollective) continue;
        // A send goes to the device with the same rank; other collectives stay among the stage's devices. All
        // are in one order.
        const std::vector<uint32_t> want =
            IsSend(node) ? std::vector<uint32_t>{static_cast<uint32_t>(rank), static_cast<uint32_t>(2 + rank)}
                         : std::vector<uint32_t>{2 * stage, 2 * stage + 1};
        EXPECT_EQ(node.As<ir::CollectiveAttrs>().group, want) << ir::Dump(graph);
        if (last != ir::kNoNode) {
          EXPECT_NE(std::find(node.weak_after.begin(), node.weak_after.end(), last), node.weak_after.end());
        }
        last = id;
      }
    }
  }
}

TEST(StagesTest, ProgramsFollowTheFirst) {
  DecoderShape shape;
  shape.layers = 4;
  SmallGraph first, second;
  MakeDecoder(shape, &first);
  shape.tokens = 1;
  MakeDecoder(shape, &second);
  StagePlaces places;
  Staged(first.g, 2, &places);
  // The second program takes the first one's choice, here one that it would not make itself.
  for (auto& [name, rows] : places.rows) {
    for (int& stage : rows) stage = name[1] == '0' ? 0 : 1;
  }
  const StagedGraph staged = Staged(second.g, 2, &places);
  EXPECT_EQ(staged.stages[0].states.size(), 2u) << staged.text;
  EXPECT_EQ(staged.stages[1].states.size(), 6u) << staged.text;
  ExpectSame(second.g, staged.stages, "second");
}

TEST(StagesTest, AStateThatIsUsedAllAlongIsNamed) {
  SmallGraph s;
  const NodeId state = s.In("memory", {4, 8});
  NodeId x = s.In("x", {4, 8});
  for (int i = 0; i < 6; ++i)
    x = s.b.MatMul(s.b.Add(x, state), s.b.Transpose(s.b.Unary(TapeOp::kTanh, x), {1, 0}));
  s.g.states.push_back({0, 0});
  s.Out("memory_out", s.b.MatMul(x, state));
  StagePlaces places;
  StagedGraph out;
  const Status status = CutIntoStages(s.g, 2, true, &places, &out);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("state \"memory\" is used from"), std::string::npos)
      << status.message();
}

TEST(StagesTest, MoreStagesThanPlacesToCutIsSaid) {
  SmallGraph s;
  s.Out("y", s.b.MatMul(s.b.MatMul(s.In("x", {64, 70}), s.In("w", {70, 80})), s.In("v", {80, 90})));
  StagePlaces places;
  StagedGraph out;
  const Status status = CutIntoStages(s.g, 3, true, &places, &out);
  EXPECT_NE(std::string(status.message()).find("its 2 steps can be cut at 1 places, too few for 3 stages"),
            std::string::npos)
      << status.message();
}

// A control edge across a cut: the later node waits for a message about the earlier one. A strong edge keeps
// the earlier node alive.
TEST(StagesTest, ControlEdgesHoldOverACut) {
  for (const bool strong : {false, true}) {
    SmallGraph s;
    const NodeId x = s.In("x", {80, 80}), w = s.In("w", {80, 80});
    const NodeId first = s.b.MatMul(w, w);
    NodeId y = x;
    for (int i = 0; i < 6; ++i) y = s.b.MatMul(y, x);
    s.g.RunAfter(y, first, strong);
    if (!strong) s.Out("first", first);
    s.Out("y", y);
    const StagedGraph staged = Staged(s.g, 2);
    EXPECT_EQ(SendsOf(staged.stages[0]), 1) << staged.text;
    EXPECT_NE(staged.text.find("1 byte: Send of word of"), std::string::npos) << staged.text;
    bool waits = false;
    for (NodeId id = 0; id < staged.stages[1].size(); ++id) {
      const ir::Node& node = staged.stages[1].node(id);
      for (NodeId before : node.weak_after)
        waits = waits || (node.op == ir::Op::kMatMul && IsSend(staged.stages[1].node(before)));
      for (NodeId before : node.strong_after)
        waits = waits || (node.op == ir::Op::kMatMul && IsSend(staged.stages[1].node(before)));
    }
    EXPECT_TRUE(waits);
    ExpectSame(s.g, staged.stages, "control edge");
  }
}

// A node that is cheap enough to repeat on each stage is not repeated if other nodes must run after it.
TEST(StagesTest, ControlEdgesToWhatIsLittleWorkHold) {
  SmallGraph s;
  const NodeId first = s.b.Unary(TapeOp::kCos, s.In("at", {3}));
  std::vector<double> weights(96 * 96, 0.25);
  NodeId y = s.In("x", {3, 96});
  for (int i = 0; i < 4; ++i) {
    weights[0] += 1;
    y = s.b.MatMul(y, s.b.Floats(DType::kF32, {96, 96}, weights));
    if (i == 0 || i == 3) s.g.RunAfter(y, first);
  }
  s.Out("y", y);
  s.Out("first", first);
  const StagedGraph staged = Staged(s.g, 2);
  EXPECT_NE(staged.text.find("1 byte: Send of word of"), std::string::npos) << staged.text;
  std::vector<ir::Op> before[2];  // for each stage, what its matmuls wait for
  for (size_t stage = 0; stage < 2; ++stage) {
    const ir::Graph& graph = staged.stages[stage];
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (graph.node(id).op != ir::Op::kMatMul) continue;
      for (NodeId other : graph.node(id).weak_after) before[stage].push_back(graph.node(other).op);
    }
  }
  EXPECT_EQ(before[0], std::vector<ir::Op>{ir::Op::kPointwise});
  EXPECT_EQ(before[1], std::vector<ir::Op>{ir::Op::kCollective});
  ExpectSame(s.g, staged.stages, "control edges");
}

// Positions come from an input and a small table, so each stage looks them up itself.
TEST(StagesTest, WhatIsLessToMakeThanToSendIsMadeAgain) {
  SmallGraph s;
  std::vector<double> table(64), weights(96 * 96);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<double>(i) / 10;
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i % 101) / 101 - 0.5;
  const NodeId at = s.In("at", Shape({3}), DType::kI64);
  const NodeId turn = s.b.Unary(TapeOp::kCos, s.b.Gather(s.b.Floats(DType::kF32, {64}, table), at, 0));
  NodeId x = s.In("x", {3, 96});
  for (int i = 0; i < 4; ++i) {
    weights[0] += 1;
    x = s.b.MatMul(s.b.Mul(x, s.b.Reshape(turn, Shape({3, 1}))), s.b.Floats(DType::kF32, {96, 96}, weights));
  }
  s.Out("y", x);
  const StagedGraph staged = Staged(s.g, 2);
  EXPECT_EQ(SendsOf(staged.stages[0]), 1) << staged.text;
  for (const ir::Graph& stage : staged.stages) {
    const bool has = std::any_of(stage.inputs.begin(), stage.inputs.end(),
                                 [](const ir::GraphInput& in) { return in.name == "at"; });
    EXPECT_TRUE(has) << staged.text;
  }
  ExpectSame(s.g, staged.stages, "positions");
}

}  // namespace
}  // namespace rondo::shard
