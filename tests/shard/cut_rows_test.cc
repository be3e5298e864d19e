// Chunks of rows: ranks with cut collectives give the results of the whole graph, the same on all ranks.
#include "compiler/shard/cut_rows.h"

#include "tests/shard/same_results.h"

namespace rondo::shard {
namespace {

// Cuts all ranks in the same way. Returns the number of collectives cut on each.
int64_t Cut(std::vector<ir::Graph>* ranks, int64_t chunks, const std::vector<bool>& leave = {}) {
  int64_t cut = 0;
  for (ir::Graph& rank : *ranks) {
    const auto result = CutRows(&rank, chunks, leave);
    EXPECT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(ir::Validate(rank), "");
    cut = std::count(result->cut.begin(), result->cut.end(), true);
  }
  return cut;
}

DecoderShape Prefill() {
  DecoderShape shape;
  shape.tokens = 8;
  shape.hidden = 96;
  shape.inner = 192;
  return shape;
}

TEST(CutRowsTest, ADecodersChunksMeetInAttentionAlone) {
  for (int64_t chunks : {2, 4, 8}) {
    SmallGraph s;
    MakeDecoder(Prefill(), &s);
    ShardedGraph sharded = Sharded(s.g, 2);
    // The gather at the end is cut too, because logits have all rows.
    EXPECT_EQ(Cut(&sharded.ranks, chunks), 2 * Prefill().layers + 2);
    EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllReduce), chunks * (2 * Prefill().layers + 1));
    EXPECT_EQ(CountOf(sharded.ranks[0], CollectiveOp::kAllGather), chunks);
    const ir::Graph& rank = sharded.ranks[0];
    int64_t attentions = 0;
    for (ir::NodeId id = 0; id < rank.size(); ++id) {
      const ir::Node& node = rank.node(id);
      attentions += node.op == ir::Op::kAttention;
      // Residuals pass from layer to layer in chunks; only the logits are joined.
      EXPECT_TRUE(node.op != ir::Op::kConcat || node.shape.elements() != 8 * 96) << ir::Dump(rank);
    }
    EXPECT_EQ(attentions, chunks * Prefill().layers);
    ExpectSame(s.g, sharded.ranks, std::to_string(chunks) + " chunks");
  }
}

TEST(CutRowsTest, CachesOfAllLayersInOneStateAreWrittenInTurn) {
  DecoderShape shape = Prefill();
  shape.stacked = true;
  SmallGraph s;
  MakeDecoder(shape, &s);
  ShardedGraph sharded = Sharded(s.g, 2);
  EXPECT_GT(Cut(&sharded.ranks, 2), 0);
  ExpectSame(s.g, sharded.ranks, "stacked caches");
}

TEST(CutRowsTest, WhatIsToBeLeftIsLeft) {
  SmallGraph s;
  MakeDecoder(Prefill(), &s);
  ShardedGraph sharded = Sharded(s.g, 2);
  const std::vector<bool> leave = {false, true, true, false, false, true};
  EXPECT_EQ(Cut(&sharded.ranks, 2, leave), 3);
  ExpectSame(s.g, sharded.ranks, "some cut");
  // Cut collectives are not cut again; others can be cut, into any number of chunks.
  EXPECT_EQ(Cut(&sharded.ranks, 4), 3);
  ExpectSame(s.g, sharded.ranks, "cut twice");
}

TEST(CutRowsTest, OneRowIsNotCut) {
  DecoderShape shape = Prefill();
  shape.tokens = 1;
  SmallGraph s;
  MakeDecoder(shape, &s);
  ShardedGraph sharded = Sharded(s.g, 2);
  const std::string before = ir::Dump(sharded.ranks[0]);
  EXPECT_EQ(Cut(&sharded.ranks, 2), 0);
  EXPECT_EQ(ir::Dump(sharded.ranks[0]), before);
}

TEST(CutRowsTest, NodesThatAnnotationsBindStayOne) {
  SmallGraph s;
  MakeDecoder(Prefill(), &s);
  for (ir::NodeId id = 0; id < s.g.size(); ++id) {
    if (s.g.node(id).op == ir::Op::kAttention) s.g.node(id).annotations["stream"] = "1";
  }
  ShardedGraph sharded = Sharded(s.g, 2);
  EXPECT_GT(Cut(&sharded.ranks, 4), 0);
  int64_t attentions = 0;
  for (ir::NodeId id = 0; id < sharded.ranks[0].size(); ++id)
    attentions += sharded.ranks[0].node(id).op == ir::Op::kAttention;
  EXPECT_EQ(attentions, Prefill().layers);
  ExpectSame(s.g, sharded.ranks, "bound attention");
}

TEST(CutRowsTest, RandomGraphsGiveTheSame) {
  int64_t cut = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SmallGraph s;
    if (seed % 2 == 0) {
      MakeRandom(seed, &s);
    } else {
      DecoderShape shape;
      shape.tokens = 4 * (1 + seed % 3);
      shape.parallel = seed % 4 == 1;
      shape.stacked = seed % 8 > 3;
      MakeDecoder(shape, &s);
    }
    for (int64_t devices : {2, 3}) {
      ShardedGraph sharded = Sharded(s.g, devices);
      cut += Cut(&sharded.ranks, seed % 3 == 0 ? 2 : 4);
      ExpectSame(s.g, sharded.ranks, "seed " + std::to_string(seed));
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(cut, 100);
}

}  // namespace
}  // namespace rondo::shard
