// Attention of many queries: blocks of 64 queries that share keys and values in shared memory.
#include "compiler/codegen/cuda/attention/attention_cost.h"
#include "compiler/codegen/cuda/attention/attention_templates.h"
#include "compiler/codegen/cuda/device/attention_staged_layout.h"
#include "compiler/codegen/cuda/gpu_table.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"attention_block", "attention_staged"};

constexpr int kRowWarps = 4;    // of a block; two such groups of warps split the keys
constexpr int kMostStages = 2;  // copies in flight
constexpr int kMostResident = 2;
constexpr int64_t kOwn = 1024;  // bytes of shared memory that a block has besides

struct Staged {
  QueryTiles tiles;
  StagedAttention layout;
  uint32_t resident;  // blocks of a multiprocessor
};

// As many stages as shared memory has room for, if there is room.
bool TakeStages(const CudaTarget& target, Staged* staged) {
  const int64_t room = staged->resident == 1 ? target.shared : target.shared_processor / staged->resident;
  StagedAttention& layout = staged->layout;
  for (layout.stages = kMostStages; layout.stages > 0; --layout.stages) {
    if (layout.shared() + kOwn <= room) return true;
  }
  return false;
}

// None where tensor cores cannot, or shared memory has no room.
std::optional<Staged> StagedOf(const PartContext& context) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const std::optional<QueryTiles> tiles = QueryTilesOf(context);
  if (!tiles) return std::nullopt;
  Staged staged = {*tiles, {}, kMostResident};
  staged.tiles.warp_rows = StagedAttention::kWarpRows;
  staged.tiles.tile_warps = kRowWarps;
  StagedAttention& layout = staged.layout;
  layout.features = static_cast<int>(tiles->features);
  layout.values = static_cast<int>(tiles->values);
  layout.row_warps = kRowWarps;
  layout.bf16 = tiles->bf16;
  layout.wgmma = context.target.warp_groups && tiles->features % 64 == 0 && tiles->values % 64 == 0;
  layout.keys = layout.wgmma || tiles->features + tiles->values <= gpu.staged_wide_stage ? 128 : 64;
  if (tiles->values > gpu.staged_two_blocks) staged.resident = 1;
  for (; staged.resident > 0; --staged.resident) {
    if (TakeStages(context.target, &staged)) return staged;
  }
  return std::nullopt;
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  const std::optional<Staged> staged = StagedOf(context);
  if (!staged) return {};
  KernelConfiguration configuration;
  configuration.family = TemplateFamily::kStaged;
  const StagedAttention& layout = staged->layout;
  const double cycles = StagedCycles(context, staged->tiles, layout.keys, layout.wgmma != 0);
  return {{configuration, cycles / GpuTableOf(context.target).cycles_a_microsecond}};
}

Result<PartLaunch> WriteStaged(const PartContext& context, const KernelConfiguration&, PartWriter* writer) {
  const Part& part = context.part;
  const Staged staged = *StagedOf(context);
  const QueryTiles& tiles = staged.tiles;
  const StagedAttention& layout = staged.layout;
  WriteTilePlace(context, tiles, writer);
  WriteTileWait(context, tiles, writer);
  WriteQueryAt(context, tiles, writer);
  WriteQueryRows(context, tiles, {}, writer);
  writer->Line("(void)at;");
  const bool plain = WriteScore(context, tiles, writer);
  auto bytes = [&](uint16_t index) { return Text(2 * part.operands[index].strides[tiles.key]) + "ll"; };
  writer->Line("typedef " + std::string(layout.wgmma ? "StagedWgmma<" : "StagedMma<") +
               Aggregate("StagedAttention", layout) + "> Matmuls;");
  writer->Line("AttentionBlock<" + Aggregate("AttentionLayout", tiles.layout()) + "> block_out;");
  writer->Line("{ Matmuls::Rows rows_out;");
  writer->Line("staged_attention<Matmuls, " + Truth(plain) + ", " + Truth(part.limit != kNoOperand) +
               ">(rows_out, query_at, limits, " + Text(tiles.keys) + ", keys, " + bytes(part.keys) +
               ", values, " + bytes(part.values) + ", unit, score);");
  writer->Line("block_out.keep(rows_out); }");
  if (!context.LeavesRoom(tiles.blocks())) writer->Line("launch_dependents();");
  WriteQueryResults(context, tiles, writer);
  PartLaunch launch;
  launch.resident = staged.resident;
  launch.shared = static_cast<uint32_t>(layout.shared());
  return WithBlocks(launch, tiles.blocks());
}

}  // namespace

constinit const PartTemplate kStagedAttention = {TemplateFamily::kStaged, kHeaders, Candidates, WriteStaged};

}  // namespace rondo::cuda
