// Attention in f32: blocks of 16, 32 or 64 queries share keys and values in shared memory.
#include "compiler/codegen/cuda/attention/attention_cost.h"
#include "compiler/codegen/cuda/attention/attention_variants.h"
#include "compiler/codegen/cuda/device/attention_fma_layout.h"
#include "compiler/codegen/cuda/gpu_table.h"

namespace rondo::cuda {

namespace {

constexpr std::string_view kHeaders[] = {"attention_fma"};

constexpr int kMostStages = 2;
constexpr int kMostResults = 64;  // of a thread, in registers
constexpr int64_t kOwn = 1024;    // further bytes of shared memory of a block

struct Fma {
  QueryTiles tiles;
  FmaAttention layout;
};

// None if the operands do not suit, or shared memory has no room.
std::optional<Fma> FmaOf(const PartContext& context, int rows_a_thread) {
  const std::optional<QueryTiles> tiles = FloatQueryTilesOf(context);
  if (!tiles || !tiles->fits_registers()) return std::nullopt;
  Fma fma = {*tiles, {}};
  FmaAttention& layout = fma.layout;
  layout.rows_a_thread = rows_a_thread;
  layout.features = static_cast<int>(tiles->features);
  layout.values = static_cast<int>(tiles->values);
  layout.query_lanes = tiles->query_lanes;
  layout.key_lanes = tiles->key_lanes;
  layout.value_lanes = tiles->value_lanes;
  fma.tiles.warp_rows = layout.rows();
  if (rows_a_thread * layout.columns() > kMostResults) return std::nullopt;
  for (layout.stages = kMostStages; layout.stages > 0; --layout.stages) {
    if (layout.shared() + kOwn <= static_cast<int64_t>(context.target.shared)) return fma;
  }
  return std::nullopt;
}

std::vector<KernelCandidate> Candidates(const PartContext& context) {
  std::vector<KernelCandidate> candidates;
  for (int rows_a_thread : {1, 2, 4}) {
    const std::optional<Fma> fma = FmaOf(context, rows_a_thread);
    if (!fma) continue;
    KernelConfiguration configuration;
    configuration.variant = VariantId::kFma;
    configuration.m = fma->layout.rows();
    const double cycles = FmaCycles(context, fma->tiles, fma->layout);
    candidates.push_back({configuration, cycles / GpuTableOf(context.target).cycles_a_microsecond});
  }
  return candidates;
}

Result<PartLaunch> WriteFma(const PartContext& context, const KernelConfiguration& configuration,
                            PartWriter* writer) {
  const Part& part = context.part;
  const Fma fma = *FmaOf(context, static_cast<int>(configuration.m) / FmaAttention::kGroups);
  const QueryTiles& tiles = fma.tiles;
  const FmaAttention& layout = fma.layout;
  const std::string text = Aggregate("FmaAttention", layout);
  WriteTilePlace(context, tiles, writer);
  WriteTileWait(context, tiles, writer);
  WriteQueryAt(context, tiles, writer);
  WriteQueryRows(context, tiles, {layout.rows_a_thread, "threadIdx.x / 16 + 16 * h"}, writer);
  writer->Line("(void)at;");
  WriteScore(context, tiles, false, writer);
  writer->Line("FmaBlock<" + text + "> block_out;");
  writer->Line("{ FmaRows<" + text + "> rows_out;");
  writer->Line("fma_attention<" + text + ", " + Truth(part.limit != kNoOperand) + ">(rows_out, query_at, " +
               BytesText(context, part.lhs, tiles.feature) + ", limits, " + Text(tiles.keys) + ", " +
               LinesText(context, "keys", part.keys, tiles.key, tiles.feature) + ", " +
               LinesText(context, "values", part.values, tiles.key, tiles.value) + ", unit, score);");
  writer->Line("block_out.keep(rows_out); }");
  if (!context.LeavesRoom(tiles.blocks())) writer->Line("launch_dependents();");
  WriteQueryResults(context, tiles, writer);
  PartLaunch launch;
  launch.shared = static_cast<uint32_t>(layout.shared());
  return WithBlocks(launch, tiles.blocks());
}

}  // namespace

constinit const KernelVariant kFmaAttention = {VariantId::kFma, kHeaders, Candidates, WriteFma};

}  // namespace rondo::cuda
