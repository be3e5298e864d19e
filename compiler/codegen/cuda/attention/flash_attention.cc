// Attention on tensor cores. Each warp walks its share of the keys for 16 queries, with online softmax in
// registers.
#include <algorithm>
#include <optional>

#include "compiler/codegen/cuda/attention/attention_cost.h"
#include "compiler/codegen/cuda/attention/attention_variants.h"
#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

constexpr int kMostShared = 128 << 10;  // bytes of a block that splits keys with others
// Bytes that L2 fetches before the earlier kernels are complete: part of its capacity, about what memory
// delivers in the time of a small kernel. 64 MiB, all keys of a batch of 16, was slower than no prefetch.
constexpr int64_t kMostFetched = int64_t{16} << 20;

constexpr std::string_view kHeaders[] = {"attention_block", "attention_warp"};

// Numbers of blocks of a cluster that may split the keys: up to what gives every warp keys.
std::vector<int64_t> Clusters(const PartContext& context, const QueryTiles& tiles) {
  constexpr int64_t kMost = 8;
  const bool can = context.target.clusters() && context.cluster == 0 && ResultLanes(context, tiles) > 1;
  const int64_t most = can ? kMost : 1;
  std::vector<int64_t> clusters = {1};
  for (int64_t cluster = 2; cluster <= most && tiles.keys >= cluster * tiles.splits() * QueryTiles::kRun;
       cluster *= 2)
    clusters.push_back(cluster);
  return clusters;
}

// Tiles for warps that read whole vectors of eight elements themselves. A warp has 16 queries, or 8 where the
// results of 16 do not fit shared memory.
std::optional<QueryTiles> VectorTilesOf(const PartContext& context) {
  constexpr int64_t kMultiple = 8, kFewer = 8;
  std::optional<QueryTiles> tiles = QueryTilesOf(context);
  if (!tiles || !tiles->fits_registers() || !tiles->vectors(kMultiple)) return std::nullopt;
  if (tiles->layout().shared(1) > static_cast<int64_t>(context.target.shared))
    tiles->warp_rows = std::min(tiles->warp_rows, kFewer);
  return tiles;
}

QueryTiles TilesOf(const PartContext& context, const KernelConfiguration& configuration) {
  QueryTiles tiles = *VectorTilesOf(context);
  tiles.tile_warps = QueryTiles::kWarps / configuration.warps;
  tiles.cluster = configuration.cluster;
  return tiles;
}

// With fewer queries in a block, more of its warps split the keys.
std::vector<KernelCandidate> Candidates(const PartContext& context) {
  std::optional<QueryTiles> tiles = VectorTilesOf(context);
  if (!tiles) return {};
  const GpuTable& gpu = GpuTableOf(context.target);
  std::vector<KernelCandidate> candidates;
  for (tiles->tile_warps = 1; tiles->tile_warps <= QueryTiles::kWarps; tiles->tile_warps *= 2) {
    for (int64_t cluster : Clusters(context, *tiles)) {
      tiles->cluster = cluster;
      if (cluster > 1 && tiles->layout().shared(static_cast<int>(cluster)) > kMostShared) continue;
      KernelConfiguration configuration;
      configuration.variant = VariantId::kFlash;
      configuration.warps = tiles->splits();
      configuration.cluster = cluster;
      candidates.push_back({configuration, FlashCycles(context, *tiles) / gpu.cycles_a_microsecond});
    }
    if (tiles->tile_rows() >= tiles->rows) break;
  }
  return candidates;
}

// How many halves of a warp's 16 rows are in use: using one leaves more registers for the next kernel's first
// blocks.
int HalvesOf(const QueryTiles& tiles) { return tiles.warp_rows <= 8 ? 1 : 2; }

// The warps' shares of the keys, as arguments of AttentionWarp::walk.
struct Walk {
  std::string warp, first, step, keys, values;
};

Walk WalkOf(const PartContext& context, const QueryTiles& tiles) {
  const Part& part = context.part;
  auto bytes = [&](uint16_t index) { return Text(2 * part.operands[index].strides[tiles.key]) + "ll"; };
  const std::string run = Text(QueryTiles::kRun);
  return {"AttentionWarp<" + Truth(tiles.bf16) + ", " + Text(tiles.features) + ", " + Text(tiles.values) +
              ", " + Text(HalvesOf(tiles)) + ">",
          "(rank * " + Text(tiles.splits()) + " + warp / " + Text(tiles.tile_warps) + ") * " + run,
          Text(QueryTiles::kRun * tiles.splits() * tiles.cluster), "keys, " + bytes(part.keys),
          "values, " + bytes(part.values)};
}

// Writes `hint`, an estimate of the number of keys; meanwhile L2 fetches these keys and their values. Without
// room on the GPU, the hint is 0. The results do not depend on the hint.
void WriteHint(const PartContext& context, const QueryTiles& tiles, const Walk& walk, PartWriter* writer) {
  const Part& part = context.part;
  const bool limited = part.limit != kNoOperand;
  if (!context.target.dependent_launch() || !context.LeavesRoom(tiles.blocks()) ||
      (limited && !IsPlain(part.operands[part.limit]))) {
    writer->Line("const int hint = 0;");
    return;
  }
  const std::string keys = Text(tiles.keys);
  writer->Line("const int hint = " +
               (limited ? "hinted_bound(" + writer->AddressText(part.limit) + ", " + keys + ")" : keys) +
               ";");
  const int64_t most =
      std::max<int64_t>(1, kMostFetched / (tiles.groups * 2 * (tiles.features + tiles.values)));
  const std::string fetched = most < tiles.keys ? "hint < " + Text(most) + " ? hint : " + Text(most) : "hint";
  writer->Line(walk.warp + "::fetch(" + walk.first + ", " + walk.step + ", " + fetched + ", " + walk.keys +
               ", " + walk.values + ");");
}

Result<PartLaunch> WriteFlash(const PartContext& context, const KernelConfiguration& configuration,
                              PartWriter* writer) {
  const QueryTiles tiles = TilesOf(context, configuration);
  const Walk walk = WalkOf(context, tiles);
  WriteTilePlace(context, tiles, writer);
  writer->Line("AttentionBlock<" + Aggregate("AttentionLayout", tiles.layout()) + "> block_out;");
  if (tiles.cluster > 1) writer->Line("block_out.begin();");
  WriteHint(context, tiles, walk, writer);
  WriteTileWait(context, tiles, writer);
  ThreadRows rows;
  rows.count = HalvesOf(tiles);
  WriteQueryRows(context, tiles, rows, writer);
  const std::string plain = Truth(WriteScore(context, tiles, false, writer));
  writer->Line("{ " + walk.warp + " warp_out;");
  writer->Line("warp_out.template walk<" + plain + ">(at, limits, " + walk.first + ", " + walk.step + ", " +
               walk.keys + ", " + walk.values + ", hint, " + Text(tiles.keys) + ", unit, score);");
  writer->Line("block_out.keep(warp_out); }");
  if (!context.LeavesRoom(tiles.blocks())) writer->Line("launch_dependents();");
  WriteQueryResults(context, tiles, writer);
  PartLaunch launch;
  launch.cluster = static_cast<uint32_t>(tiles.cluster);
  launch.resident = tiles.resident();
  launch.shared = static_cast<uint32_t>(tiles.layout().shared(static_cast<int>(tiles.cluster)));
  return WithBlocks(launch, tiles.blocks());
}

}  // namespace

constinit const KernelVariant kFlashAttention = {VariantId::kFlash, kHeaders, Candidates, WriteFlash};

}  // namespace rondo::cuda
