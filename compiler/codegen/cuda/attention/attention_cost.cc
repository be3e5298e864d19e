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

// Cycles to read all keys and values once from memory.
double MemoryCycles(const PartContext& context, const QueryTiles& tiles) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const double bytes_a_key = 2 * static_cast<double>(tiles.features + tiles.values);
  return static_cast<double>(tiles.groups * tiles.keys) * bytes_a_key /
         (gpu.memory_bytes * std::min(1.0, context.Processors() / gpu.memory_processors));
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
  const double memory = MemoryCycles(context, tiles);
  const double join = tiles.cluster > 1 ? gpu.split_start + gpu.split_block * cluster : 0;
  const double masked =
      MaskCycles(context, tiles, busiest * static_cast<double>(tiles.tile_rows()) * keys * share);
  return gpu.attention_start + std::max(read + rounds + masked, memory) + join;
}

double StagedCycles(const PartContext& context, const QueryTiles& tiles, const StagedAttention& layout,
                    uint32_t resident) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const bool wide = layout.row_warps == 8 && layout.wgmma != 0;
  const double share = KeyShare(context, tiles);
  const double keys = RoundUp(static_cast<double>(tiles.keys), layout.keys) * share;
  const double rows = static_cast<double>(tiles.tile_rows()), busiest = Busiest(context, tiles);
  const double single =
      (layout.key_lanes <= 1 ? layout.features : 0) + (layout.value_lanes <= 1 ? layout.values : 0);
  const double besides = MaskCycles(context, tiles, busiest * rows * keys) +
                         busiest * (rows + keys) * single / gpu.attention_elements;
  if (layout.wgmma == 0) {
    const double features = layout.padded(layout.features) + layout.padded(layout.values);
    // A wide stage leaves too few registers for the scores of wide heads; a narrow stage waits more often.
    const bool wide_stage = features > static_cast<double>(gpu.staged_wide_stage),
               suits = wide_stage == (layout.keys == 64);
    const double rate = gpu.attention_mma * (suits && layout.row_warps == 4 ? 1 : gpu.attention_unsuited);
    return gpu.attention_start + besides + busiest * rows * features * keys / rate;
  }
  const double features = RoundUp(layout.features, 16) + layout.wgmma_values();
  const double together = resident > 1 && busiest > 1 ? gpu.attention_together : 1;
  if (wide) {
    const double key = gpu.attention_wide_key + features * gpu.attention_wide_feature;
    const double longest = gpu.attention_wide_block + keys / share * key;  // of blocks with own limits
    return besides + std::max(longest, busiest * (gpu.attention_wide_block + keys * key));
  }
  const double key = gpu.attention_narrow_key + features * gpu.attention_narrow_feature;
  const double longest = gpu.attention_narrow_block + keys / share * key;
  const double all =
      std::ceil(busiest / resident) * gpu.attention_narrow_block + busiest * keys * key * together;
  return gpu.attention_narrow_start + besides + std::max(longest, all);
}

double PipelinedCycles(const PartContext& context, const QueryTiles& tiles, const StagedAttention& layout) {
  const GpuTable& gpu = GpuTableOf(context.target);
  const double features = RoundUp(layout.features, 16) + layout.wgmma_values();
  const bool masked = context.part.mask != kNoOperand;
  const std::optional<int> ahead = MaskLanes(context, tiles);
  double stage = gpu.attention_pipelined_key + features * gpu.attention_pipelined_feature +
                 (ahead ? gpu.attention_pipelined_mask + (8 / *ahead - 1) * gpu.attention_mask_piece : 0);
  stage = gpu.attention_pipelined_stage + layout.own() * stage;
  if (layout.splits() > 1) stage *= gpu.attention_pipelined_shared;
  if (layout.stages == 2) stage *= gpu.attention_pipelined_two_stages;
  if (masked && !ahead) stage += MaskCycles(context, tiles, static_cast<double>(layout.rows()) * layout.keys);
  const double stages = std::ceil(static_cast<double>(tiles.keys) / layout.keys);
  const double longest = gpu.attention_pipelined_block + stages * stage;
  const double mean = gpu.attention_pipelined_block + stages * KeyShare(context, tiles) * stage;
  return std::max({longest, Busiest(context, tiles) * mean, MemoryCycles(context, tiles)});
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
