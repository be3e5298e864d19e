// Attention on tensor cores: each warp walks its share of the keys for 16 queries, online softmax in
// registers.
#include "compiler/codegen/cuda/attention/attention_templates.h"
#include "compiler/codegen/cuda/attention/query_tiles.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"attention_block", "attention_warp"};

constexpr int64_t kNarrow = 128;  // features and values that leave room for two blocks on a multiprocessor

std::optional<QueryTiles> TilesOf(const PartContext& context) {
  std::optional<QueryTiles> tiles = QueryTilesOf(context);
  if (tiles) SplitKeys(context, &*tiles);
  return tiles;
}

bool Suits(const PartContext& context) { return QueryTilesOf(context).has_value(); }

uint32_t Cluster(const PartContext& context) { return static_cast<uint32_t>(TilesOf(context)->cluster); }

Result<PartLaunch> WriteFlash(const PartContext& context, PartWriter* writer) {
  const Part& part = context.part;
  const QueryTiles tiles = *TilesOf(context);
  WriteTilePlace(context, tiles, writer);
  WriteQueryRows(context, tiles, writer);
  const std::string plain = Truth(WriteScore(context, tiles, writer));
  auto bytes = [&](uint16_t index) { return Text(2 * part.operands[index].strides[tiles.key]) + "ll"; };
  writer->Line("AttentionBlock<" + Text(tiles.warp_rows) + ", " + Text(tiles.values) + ", " +
               Text(tiles.splits()) + "> block_out;");
  writer->Line("{ AttentionWarp<" + Truth(tiles.bf16) + ", " + Text(tiles.features) + ", " +
               Text(tiles.values) + "> warp_out;");
  writer->Line("warp_out.template walk<" + plain + ">(at, limits, (rank * " + Text(tiles.splits()) +
               " + warp / " + Text(tiles.tile_warps) + ") * " + Text(QueryTiles::kRun) + ", " +
               Text(QueryTiles::kRun * tiles.splits() * tiles.cluster) + ", keys, " + bytes(part.keys) +
               ", values, " + bytes(part.values) + ", unit, score);");
  writer->Line("block_out.keep(warp_out); }");
  if (!context.LeavesRoom(tiles.blocks())) writer->Line("launch_dependents();");
  WriteQueryResults(context, tiles, writer);
  PartLaunch launch;
  launch.cluster = static_cast<uint32_t>(tiles.cluster);
  if (tiles.features + tiles.values <= kNarrow) launch.resident = 2;
  launch.shared = static_cast<uint32_t>(tiles.layout().shared(static_cast<int>(tiles.cluster)));
  return WithBlocks(launch, tiles.blocks());
}

}  // namespace

constinit const PartTemplate kFlashAttention = {"flash", kHeaders, Suits, WriteFlash, Cluster};

}  // namespace rondo::cuda
