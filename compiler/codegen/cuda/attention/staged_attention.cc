// Attention of many queries: blocks share keys and values in shared memory. There are two kinds: all warps of
// a block copy and compute, or (pipelined) one warpgroup copies and two compute in turn.
#include "compiler/codegen/cuda/attention/attention_cost.h"
#include "compiler/codegen/cuda/attention/attention_variants.h"
#include "compiler/codegen/cuda/device/attention_staged_layout.h"
#include "compiler/codegen/cuda/gpu_table.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"attention_block", "attention_staged"};
constexpr std::string_view kPipelinedHeaders[] = {"attention_block", "attention_pipelined"};

constexpr int kMostStages = 2, kMostPipelinedStages = 4;  // copies in flight
constexpr int kMostResident = 2;
constexpr int64_t kOwn = 1024;  // further bytes of shared memory of a block

struct Staged {
  QueryTiles tiles;
  StagedAttention layout;
  uint32_t resident;  // blocks for each multiprocessor
};

// Sets the number of stages to as many as fit shared memory. False if too few fit.
bool TakeStages(const CudaTarget& target, int most, Staged* staged) {
  const int64_t room = staged->resident == 1 ? target.shared : target.shared_processor / staged->resident;
  StagedAttention& layout = staged->layout;
  for (layout.stages = most; layout.stages > 0; --layout.stages) {
    if (layout.shared() + kOwn <= room) return true;
  }
  return false;
}

// Approximate registers of a thread: results, the scores of its share of a stage as f32 and as weights, what
// it reads ahead of its mask, and the rest.
int RegistersOf(const PartContext& context, const QueryTiles& tiles, const StagedAttention& layout) {
  const int values = layout.wgmma ? layout.wgmma_values() : layout.padded(layout.values);
  const bool ahead = layout.wgmma && MaskLanes(context, tiles).has_value();
  const int64_t mask =
      ahead ? layout.own() * ByteSize(context.part.operands[context.part.mask].dtype) / 8 : 0;
  return values / 2 + layout.own() / 2 + layout.own() / 4 + static_cast<int>(mask) + 48;
}

// Blocks of `row_warps` warps of queries and `keys` keys for each stage. None if tensor cores cannot do it,
// or shared memory or registers have no room.
std::optional<Staged> StagedOf(const PartContext& context, int row_warps, int keys, bool pipelined = false) {
  constexpr int kRegisters = 65536 / kCudaBlock, kMostRegisters = 255;
  constexpr int kPipelinedRegisters = 224;  // of those that compute (attention_pipelined.cuh)
  const GpuTable& gpu = GpuTableOf(context.target);
  const std::optional<QueryTiles> tiles = QueryTilesOf(context);
  if (!tiles) return std::nullopt;
  Staged staged = {*tiles, {}, kMostResident};
  staged.tiles.warp_rows = StagedAttention::kWarpRows;
  staged.tiles.tile_warps = row_warps;
  StagedAttention& layout = staged.layout;
  layout.features = static_cast<int>(tiles->features);
  layout.values = static_cast<int>(tiles->values);
  layout.row_warps = row_warps;
  layout.bf16 = tiles->bf16;
  layout.keys = keys;
  layout.query_lanes = tiles->query_lanes;
  layout.key_lanes = tiles->key_lanes;
  layout.value_lanes = tiles->value_lanes;
  // Each warpgroup has its own rows; its instructions take 64 to 192 keys.
  layout.wgmma = context.target.warp_groups && row_warps >= 4 && layout.own() >= 64;
  if (pipelined && !layout.wgmma) return std::nullopt;
  const int registers = RegistersOf(context, *tiles, layout);
  if (layout.own() < QueryTiles::kRun || registers > (pipelined ? kPipelinedRegisters : kMostRegisters))
    return std::nullopt;
  // Blocks of 64 queries gain more from a second resident block than fewer registers cost [attention].
  const bool two = row_warps == 4 ? layout.padded(layout.values) <= gpu.staged_two_blocks
                                  : registers <= kRegisters / kMostResident;
  const bool one_each = static_cast<double>(staged.tiles.blocks()) <= context.Processors();
  if (pipelined || !two || one_each) staged.resident = 1;
  for (; staged.resident > 0; --staged.resident) {
    if (TakeStages(context.target, pipelined ? kMostPipelinedStages : kMostStages, &staged)) return staged;
  }
  return std::nullopt;
}

// A tile with twice as many queries as exist would double the work.
bool HasTooManyQueries(const QueryTiles& tiles) { return tiles.tile_rows() >= 2 * tiles.rows; }

KernelCandidate CandidateOf(const PartContext& context, VariantId variant, const Staged& staged,
                            double cycles) {
  KernelConfiguration configuration;
  configuration.variant = variant;
  configuration.m = staged.tiles.tile_rows();
  configuration.n = staged.layout.keys;
  return {configuration, cycles / GpuTableOf(context.target).cycles_a_microsecond};
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  std::vector<KernelCandidate> candidates;
  for (const auto& [row_warps, keys] : {std::pair{4, 128}, {4, 64}, {8, 64}}) {
    const std::optional<Staged> staged = StagedOf(context, row_warps, keys);
    if (!staged || (row_warps > 4 && HasTooManyQueries(staged->tiles))) continue;
    const double cycles = StagedCycles(context, staged->tiles, staged->layout, staged->resident);
    candidates.push_back(CandidateOf(context, VariantId::kStaged, *staged, cycles));
  }
  return candidates;
}

// Tiles of 64 queries, whose keys the warpgroups share, and of 128. Many keys a stage save barriers, unless
// the last stage is nearly empty or only two fit; registers limit them. Operands read element by element do
// not suit: that is too much work for few threads.
std::vector<KernelCandidate> PipelinedCandidates(const PartContext& context) {
  const std::optional<QueryTiles> tiles = QueryTilesOf(context);
  if (!tiles || std::min(tiles->key_lanes, tiles->value_lanes) < 2) return {};
  std::vector<KernelCandidate> candidates;
  for (const int row_warps : {4, 8}) {
    for (const int own : {192, 160, 128, 96, 64}) {
      const int keys = own * 8 / row_warps;
      const std::optional<Staged> staged = StagedOf(context, row_warps, keys, true);
      if (!staged || staged->layout.stages < 2) continue;
      if (HasTooManyQueries(staged->tiles)) break;
      const double cycles = PipelinedCycles(context, staged->tiles, staged->layout);
      candidates.push_back(CandidateOf(context, VariantId::kPipelined, *staged, cycles));
    }
  }
  return candidates;
}

// Declares `mask`, and `score` as it calls that. Returns what WriteScore does.
bool WriteMask(const PartContext& context, const Staged& staged, PartWriter* writer) {
  const std::optional<int> lanes = staged.layout.wgmma != 0 ? MaskLanes(context, staged.tiles) : std::nullopt;
  if (!lanes) {
    writer->Line("NoMaskAhead mask_ahead;");
    return WriteScore(context, staged.tiles, false, writer);
  }
  const Operand& mask = context.part.operands[context.part.mask];
  const int64_t size = ByteSize(mask.dtype);
  writer->Line("MaskAhead<" + Text(size) + ", " + Text(*lanes) + ", " + Text(staged.layout.own() / 32) +
               "> mask_ahead; mask_ahead.all = " + Text(staged.tiles.keys) + ";");
  writer->Line("for (int h = 0; h < 2; ++h) mask_ahead.rows[h] = p" + Text(mask.param) + " + mask_at[h] * " +
               Text(size) + ";");
  return WriteScore(context, staged.tiles, true, writer);
}

Result<PartLaunch> WriteStaged(const PartContext& context, const KernelConfiguration& configuration,
                               PartWriter* writer) {
  const Part& part = context.part;
  const bool pipelined = configuration.variant == VariantId::kPipelined;
  const Staged staged = *StagedOf(context, static_cast<int>(configuration.m) / StagedAttention::kWarpRows,
                                  static_cast<int>(configuration.n), pipelined);
  const QueryTiles& tiles = staged.tiles;
  const StagedAttention& layout = staged.layout;
  WriteTilePlace(context, tiles, writer);
  WriteTileWait(context, tiles, writer);
  WriteQueryAt(context, tiles, writer);
  WriteQueryRows(context, tiles, {}, writer);
  writer->Line("(void)at;");
  const bool plain = WriteMask(context, staged, writer);
  writer->Line("typedef " + std::string(layout.wgmma ? "StagedWgmma<" : "StagedMma<") +
               Aggregate("StagedAttention", layout) + "> Matmuls;");
  writer->Line("AttentionBlock<" + Aggregate("AttentionLayout", tiles.layout()) + "> block_out;");
  const std::string keys = LinesText(context, "keys", part.keys, tiles.key, tiles.feature),
                    values = LinesText(context, "values", part.values, tiles.key, tiles.value),
                    element = BytesText(context, part.lhs, tiles.feature), all = Text(tiles.keys),
                    limited = Truth(part.limit != kNoOperand);
  if (pipelined) {
    writer->Line("AttentionPipeline<Matmuls> pipeline; pipeline.keys = " + keys +
                 "; pipeline.values = " + values + ";");
    writer->Line("pipeline.begin<" + limited + ">(limits, " + all + ");");
    writer->Line("if (threadIdx.x >= " + Text(kCudaBlock) + "u) { pipeline.copy(); return; }");
  }
  writer->Line("{ Matmuls::Rows rows_out;");
  writer->Line(pipelined ? "pipelined_attention<" + Truth(plain) + ">(pipeline, rows_out, query_at, " +
                               element + ", limits, unit, mask_ahead, score);"
                         : "staged_attention<Matmuls, " + Truth(plain) + ", " + limited +
                               ">(rows_out, query_at, " + element + ", limits, " + all + ", " + keys + ", " +
                               values + ", unit, mask_ahead, score);");
  writer->Line("block_out.keep(rows_out); }");
  if (!context.LeavesRoom(tiles.blocks())) writer->Line("launch_dependents();");
  WriteQueryResults(context, tiles, writer);
  PartLaunch launch;
  if (pipelined) launch.block += StagedAttention::kCopiers;
  launch.resident = staged.resident;
  launch.shared = static_cast<uint32_t>(layout.shared());
  return WithBlocks(launch, tiles.blocks());
}

}  // namespace

constinit const KernelVariant kStagedAttention = {VariantId::kStaged, kHeaders, Candidates, WriteStaged};
constinit const KernelVariant kPipelinedAttention = {VariantId::kPipelined, kPipelinedHeaders,
                                                     PipelinedCandidates, WriteStaged};

}  // namespace rondo::cuda
