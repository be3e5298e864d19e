// Which collectives the compiler cuts into chunks, why others stay whole, and that all ranks give the same
// bits under every choice.
#include <cstdio>
#include <optional>

#include "compiler/ir/node_annotation.h"
#include "compiler/program_passes.h"
#include "compiler/shard/cut_rows.h"
#include "compiler/targets.h"
#include "tests/shard/same_results.h"

namespace rondo::shard {
namespace {

using ir::NodeId;

NodeId Weight(ir::Builder& b, DType dtype, int64_t k, int64_t n) {
  std::vector<double> values(static_cast<size_t>(k * n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 1009) / 8072 - 0.0625;
  return b.Floats(dtype, Shape({k, n}), values);
}

// x + Tanh(x a) b, `layers` times, with one all-reduce each.
NodeId Layers(ir::Builder& b, NodeId x, int64_t width, int64_t inner, int layers) {
  const DType dtype = b.graph().node(x).dtype;
  for (int layer = 0; layer < layers; ++layer) {
    const NodeId hidden = b.Unary(TapeOp::kTanh, b.MatMul(x, Weight(b, dtype, width, inner)));
    x = b.Add(x, b.MatMul(hidden, Weight(b, dtype, inner, width)));
  }
  return x;
}

struct Chosen {
  std::vector<ir::Graph> ranks;
  std::string report;
  int cut = 0;                     // number of chunks that collectives were cut into
  std::vector<std::string> whole;  // the report on each whole collective
};

Chosen Choose(const ir::Graph& graph, int64_t devices, const char* target,
              std::optional<uint32_t> chunks = {}, std::shared_ptr<const MeasuredTimes> profile = nullptr) {
  CompileOptions options;
  options.targets = *ParseTargets(target);
  options.tensor_parallel = static_cast<uint32_t>(devices);
  options.chunks = chunks.value_or(options.chunks);
  options.profile.times = std::move(profile);
  Compilation compilation(options);
  const ShardedGraph sharded = Sharded(graph, devices);
  for (uint32_t d = 0; d < sharded.ranks.size(); ++d) {
    ProgramInWork program;
    program.source.program = "main";
    program.device = d;
    program.sharded = true;
    program.graph = sharded.ranks[d];
    compilation.programs.push_back(std::move(program));
  }
  Chosen chosen;
  const Status status = program_passes::ChunkCollectives(&compilation, nullptr, &chosen.report);
  EXPECT_TRUE(status.ok()) << status.message();
  for (const ProgramInWork& program : compilation.programs) {
    EXPECT_EQ(ir::Validate(program.graph), "");
    chosen.ranks.push_back(program.graph);
  }
  for (NodeId id : CollectivesOf(chosen.ranks[0])) {
    const auto& said = chosen.ranks[0].node(id).annotations;
    chosen.cut += said.count(kChunkKey) != 0;
    if (said.count(kWholeKey) != 0) chosen.whole.push_back(said.at(kWholeKey));
  }
  return chosen;
}

TEST(ChunkChoiceTest, EachCollectiveIsCutOrNotAndRanksGiveTheSameBits) {
  for (int64_t devices : {2, 4, 8}) {
    SmallGraph s;
    const NodeId many = Layers(s.b, s.In("x", Shape({64, 96})), 96, 768 * devices, 3);
    s.Out("y", many);
    s.Out("z", Layers(s.b, s.b.Slice(many, 0, 62, 1, 2), 96, 64, 1));
    const auto idle = std::make_shared<const MeasuredTimes>(MeasuredTimes{"idle", {}, {}, 0.0});
    const Chosen chosen = Choose(s.g, devices, "host", {}, idle);
    SCOPED_TRACE(chosen.report);
    EXPECT_GE(chosen.cut, 6);
    ASSERT_EQ(chosen.whole.size(), 1u);  // the one with few rows
    EXPECT_NE(chosen.whole[0].find("in 2 chunks it would cost"), std::string::npos) << chosen.whole[0];
    ExpectSame(s.g, chosen.ranks, std::to_string(devices) + " devices");

    const Chosen busy = Choose(s.g, devices, "host");
    EXPECT_EQ(busy.report, "main@0: taken: 4 whole");
    EXPECT_EQ(busy.whole[0], "what compute loses beside collectives of a host is known from a profile only");
  }
}

// NCCL takes most of a collective's time from compute beside it. Chunks pay off only for messages so large
// that half a message takes hardly more than half the time.
TEST(ChunkChoiceTest, OnGpusOnlyLargeMessagesAreCut) {
  SmallGraph large;
  large.Out("y", Layers(large.b, large.In("x", Shape({131072, 1024}), DType::kF16), 1024, 1024, 4));
  const Chosen cut = Choose(large.g, 2, "cuda:sm_90a");
  EXPECT_GE(cut.cut, 8) << cut.report;
  EXPECT_TRUE(cut.whole.empty());
}

TEST(ChunkChoiceTest, WhatCannotPayIsNotTriedAndSaysWhy) {
  SmallGraph s;
  s.Out("y", Layers(s.b, s.In("x", Shape({4096, 1024}), DType::kF16), 1024, 2048, 2));
  const Chosen whole = Choose(s.g, 2, "cuda:sm_90a");
  EXPECT_EQ(whole.report, "main@0: taken: 2 whole");
  ASSERT_EQ(whole.whole.size(), 2u);
  double chunks = 0, slower = 0, costs = 0;
  EXPECT_EQ(
      std::sscanf(whole.whole[0].c_str(),
                  "2 chunks would take %lf us and slow compute beside them by %lf us; whole it costs %lf us",
                  &chunks, &slower, &costs),
      3)
      << whole.whole[0];
  EXPECT_GT(chunks, slower);
  EXPECT_GT(slower, costs);
  // A user who measures can still ask for chunks.
  EXPECT_EQ(Choose(s.g, 2, "cuda:sm_90a", 2).cut, 4);
}

}  // namespace
}  // namespace rondo::shard
