#include "compiler/codegen/cuda/attention/attention_cost.h"

#include <algorithm>
#include <cmath>

#include "compiler/codegen/cuda/gpu_table.h"
#include "compiler/codegen/cuda/operand_access.h"

namespace rondo::cuda {

namespace {

// The share of the keys that a query reads on average: half where the limit moves with the queries (causal
// models).
double KeyShare(const PartContext& context, const QueryTiles& tiles) {
  const Part& part = context.part;
  const bool moves =
      part.limit != kNoOperand && std::any_of(tiles.queries.begin(), tiles.queries.end(), [&](size_t loop) {
        return part.loops[loop] > 1 && MovesAlong(part, part.operands[part.limit], loop);
      });
  return moves ? 0.5 : 1;
}

// Blocks of the busiest multiprocessor. Clusters that find no room begin when others have ended.
double Busiest(const PartContext& context, const QueryTiles& tiles) {
  const double used = GpuTableOf(context.target).UsedBy(tiles.cluster);
  return std::ceil(static_cast<double>(tiles.blocks()) / (used * context.Processors()));
}

// Cycles to add the mask to `scores` scores.
double MaskCycles(const PartContext& context, const QueryTiles& tiles, double scores) {
  const Part& part = context.part;
  const GpuTable& gpu = GpuTableOf(context.target);
  if (part.mask == kNoOperand) return 0;
  const bool own = std::any_of(tiles.queries.begin(), tiles.queries.end(), [&](size_t loop) {
    return part.loops[loop] > 1 && MovesAlong(part, part.operands[part.mask], loop);
  });
  return scores / (own ? gpu.attention_mask : gpu.attention_mask_keys);
}

double RoundUp(double n, double multiple) { return std::ceil(n / multiple) * multiple; }

}  // namespace

double FlashCycles(const PartContext& context, const QueryTiles& tiles) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const double share = KeyShare(context, tiles), cluster = static_cast<double>(tiles.cluster);
  const double bytes_a_key = 2 * static_cast<double>(tiles.features + tiles.values);
  // Each warp takes runs of keys; warps with other queries read the same keys.
  const double together = static_cast<double>(tiles.splits() * QueryTiles::kRun) * cluster;
  const double keys = RoundUp(static_cast<double>(tiles.keys), together) / cluster;
  const double busiest = Busiest(context, tiles);
  const double read =
      busiest * static_cast<double>(tiles.tile_warps) * keys * share * bytes_a_key / gpu.attention_bytes;
  const double rounds = (std::ceil(busiest / tiles.resident()) - 1) * gpu.attention_round;
  // All keys and values are read once from memory.
  const double memory = static_cast<double>(tiles.groups * tiles.keys) * bytes_a_key /
                        (gpu.memory_bytes * std::min(1.0, context.Processors() / gpu.memory_processors));
  const double join = tiles.cluster > 1 ? gpu.split_start + gpu.split_block * cluster : 0;
  const double masked =
      MaskCycles(context, tiles, busiest * static_cast<double>(tiles.tile_rows()) * keys * share);
  return gpu.attention_start + std::max(read + rounds + masked, memory) + join;
}

double StagedCycles(const PartContext& context, const QueryTiles& tiles, const StagedAttention& layout,
                    uint32_t resident) {
  const GpuTable& gpu = GpuTableOf(context.target);
  // If each row has its own limit, blocks of many rows take unequal time, and the longest decides.
  const bool unequal = layout.row_warps == 8 && layout.wgmma != 0;
  const double share = unequal ? 1 : KeyShare(context, tiles);
  const double keys = RoundUp(static_cast<double>(tiles.keys), layout.keys) * share;
  const double rows = static_cast<double>(tiles.tile_rows()), busiest = Busiest(context, tiles);
  const double single =
      (layout.key_lanes <= 1 ? layout.features : 0) + (layout.value_lanes <= 1 ? layout.values : 0);
  const double besides = gpu.attention_start + MaskCycles(context, tiles, busiest * rows * keys) +
                         busiest * keys * single / gpu.attention_elements;
  if (layout.wgmma == 0) {
    const double features = layout.padded(layout.features) + layout.padded(layout.values);
    // A wide stage leaves too few registers for the scores of wide heads; a narrow stage waits more often.
    const bool wide = features > static_cast<double>(gpu.staged_wide_stage),
               suits = wide == (layout.keys == 64);
    const double rate = gpu.attention_mma * (suits && layout.row_warps == 4 ? 1 : gpu.attention_unsuited);
    return besides + busiest * rows * features * keys / rate;
  }
  const double features = RoundUp(layout.features, 16) + 64 * layout.panels(layout.values);
  const bool wide = layout.row_warps == 8;
  // Narrow blocks on one multiprocessor fill each other's waits.
  const bool together = resident > 1 && busiest > 1 && layout.panels(layout.values) == 1;
  const double rate = wide       ? gpu.attention_wgmma_wide
                      : together ? gpu.attention_wgmma_together
                                 : gpu.attention_wgmma;
  const double block = wide ? gpu.attention_wide_block : gpu.attention_block;
  return besides + std::ceil(busiest / resident) * block + busiest * rows * features * keys / rate;
}

double PipelinedCycles(const PartContext& context, const QueryTiles& tiles, const StagedAttention& layout) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const double stages = std::ceil(static_cast<double>(tiles.keys) / layout.keys);
  // More features than values: 192 and 64 took 275 us where 64 and 64 took 153 (results/gpu-attention.md).
  constexpr double kMultiplied = 0.8;  // of a stage
  const double features = static_cast<double>(layout.features), values = static_cast<double>(layout.values);
  const double more = std::max(0.0, (features - values) / (2 * values));
  const double stage = gpu.attention_pipelined_stage * (1 + kMultiplied * more);
  const double longest = gpu.attention_pipelined_block + stages * stage;
  const double mean = gpu.attention_pipelined_block + stages * KeyShare(context, tiles) * stage;
  return gpu.attention_start + std::max(longest, Busiest(context, tiles) * mean);
}

double FmaCycles(const PartContext& context, const QueryTiles& tiles, const FmaAttention& layout) {
  constexpr double kWarps = QueryTiles::kWarps;
  const GpuTable& gpu = GpuTableOf(context.target);
  const double rows = layout.rows_a_thread, keys = FmaAttention::kKeys, own = keys / FmaAttention::kLanes;
  const double threads = kWarps * 32, features = layout.features, columns = layout.columns();
  // One stage: each thread's multiplications, and the reads of its warps, 128 bytes at a time. Sixteen
  // threads that read 16 bytes each need two.
  const double dots = rows * own * features, sums = rows * columns * keys;
  const double dot_reads = features / 4 * (rows + 2 * own);
  const double sum_reads =
      keys / 4 * rows + keys * columns / layout.vector() * (layout.vector() == 4 ? 2 : 1);
  const double stage = std::max(dots * threads / gpu.fma, dot_reads * kWarps) +
                       std::max(sums * threads / gpu.fma, sum_reads * kWarps);
  const double stages = std::ceil(static_cast<double>(tiles.keys) * KeyShare(context, tiles) / keys);
  return gpu.attention_start + Busiest(context, tiles) * stages * (stage + gpu.fma_stage);
}

}  // namespace rondo::cuda
