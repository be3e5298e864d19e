// A decoder's first step fills states that it does not read: keys and values of the encoder's result. Later
// steps read them with the same sharding.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/shard/demand_order.h"
#include "compiler/shard/stages.h"
#include "tests/shard/same_results.h"
#include "tests/shard/small_models.h"

namespace rondo::shard {
namespace {

using ir::NodeId;

constexpr int64_t kHidden = 48, kHeads = 4, kSize = 12, kRows = 6;

NodeId Weight(SmallGraph* s, int64_t rows, int64_t columns) {
  std::vector<double> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 37 + static_cast<size_t>(s->g.size())) % 101) / 400 - 0.1;
  return s->b.Floats(DType::kF32, Shape({rows, columns}), values);
}

NodeId Heads(SmallGraph* s, NodeId x) {
  const Shape shape = s->b.shape(x);
  const NodeId y = s->b.MatMul(x, Weight(s, kHidden, kHeads * kSize));
  return s->b.Transpose(s->b.Reshape(y, {1, shape[1], kHeads, kSize}), {0, 2, 1, 3});
}

// A layer over x [1, 1, kHidden] and keys [1, kHeads, kRows, kSize].
NodeId Layer(SmallGraph* s, NodeId x, NodeId keys) {
  const NodeId scores = s->b.MatMul(Heads(s, x), s->b.Transpose(keys, {0, 1, 3, 2}));
  const NodeId read = s->b.Transpose(s->b.MatMul(s->b.Unary(TapeOp::kTanh, scores), keys), {0, 2, 1, 3});
  const NodeId all = s->b.Reshape(read, {1, 1, kHeads * kSize});
  return s->b.Add(x, s->b.MatMul(all, Weight(s, kHeads * kSize, kHidden)));
}

// Makes the first step, which computes all keys from an input before the first layer, or a later step. Each
// layer also has its own state.
void MakeSteps(int layers, bool first, SmallGraph* s) {
  NodeId x = s->In("x", {1, 1, kHidden});
  const NodeId given = first ? s->In("given", {1, kRows, kHidden}) : ir::kNoNode;
  std::vector<NodeId> keys, own;
  for (int i = 0; i < layers; ++i) {
    const NodeId state = s->In("k" + std::to_string(i), {1, kHeads, kRows, kSize});
    keys.push_back(first ? Heads(s, given) : state);
    s->g.states.push_back({static_cast<int>(s->g.inputs.size()) - 1, 2 * i});
    own.push_back(s->In("m" + std::to_string(i), {1, 1, kHidden}));
    s->g.states.push_back({static_cast<int>(s->g.inputs.size()) - 1, 2 * i + 1});
  }
  for (int i = 0; i < layers; ++i) {
    const size_t at = static_cast<size_t>(i);
    x = Layer(s, s->b.Add(x, own[at]), keys[at]);
    s->Out("k" + std::to_string(i) + "_out", keys[at]);
    s->Out("m" + std::to_string(i) + "_out", x);
  }
  s->Out("y", s->b.MatMul(x, Weight(s, kHidden, kHidden)));
}

TEST(EncoderStatesTest, WhatTheFirstStepDoesNotReadIsDealtOutAsTheOthersReadIt) {
  SmallGraph first, next;
  MakeSteps(2, true, &first);
  MakeSteps(2, false, &next);
  StateShardings states;
  ShardedGraph out;
  for (SmallGraph* step : {&first, &next}) {
    ASSERT_TRUE(ShardGraph(step->g, 2, &states, &out).ok());
    for (const ir::GraphInput& input : out.ranks[0].inputs) {
      if (input.name[0] != 'k') continue;
      EXPECT_EQ(out.ranks[0].node(input.node).shape, Shape({1, kHeads / 2, kRows, kSize})) << out.text;
    }
    EXPECT_EQ(CountOf(out.ranks[0], CollectiveOp::kAllGather), 1) << "y alone: " << out.text;
    EXPECT_EQ(out.states.count("k0"), 1u) << "how it is dealt out is known";
    ExpectSame(step->g, out.ranks, step == &first ? "first" : "next");
  }
}

TEST(EncoderStatesTest, InTheOrderOfNeedKeysAreOnTheStageOfTheirLayer) {
  for (const bool by_demand : {false, true}) {
    SmallGraph first, next;
    MakeSteps(6, true, &first);
    MakeSteps(6, false, &next);
    StagePlaces places;
    places.by_demand = by_demand;
    StagedGraph out;
    ASSERT_TRUE(CutIntoStages(first.g, 3, true, &places, &out).ok());
    const Status status = CutIntoStages(next.g, 3, true, &places, &out);
    EXPECT_EQ(status.ok(), by_demand) << status.message();
    if (!by_demand) continue;
    for (const ir::Graph& stage : out.stages) EXPECT_EQ(stage.states.size(), 4u) << out.text;
  }
}

TEST(EncoderStatesTest, TheOrderOfNeedIsOneOfTheGraphs) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SmallGraph s;
    MakeRandom(seed, &s);
    std::vector<NodeId> order = OrderByDemand(s.g);
    std::vector<bool> seen(static_cast<size_t>(s.g.size()), false);
    for (NodeId id : order) {
      for (NodeId in : s.g.node(id).inputs) EXPECT_TRUE(seen[static_cast<size_t>(in)]) << seed;
      seen[static_cast<size_t>(id)] = true;
    }
    std::vector<NodeId> all = s.g.TopologicalOrder();
    std::sort(all.begin(), all.end());
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, all);
  }
}

}  // namespace
}  // namespace rondo::shard
