// Estimates the time of attention: arithmetic over GpuTable. Internal to compiler/codegen/cuda.
#pragma once

#include "compiler/codegen/cuda/attention/query_tiles.h"
#include "compiler/codegen/cuda/device/attention_fma_layout.h"
#include "compiler/codegen/cuda/device/attention_staged_layout.h"

namespace rondo::cuda {

// Cycles if every warp reads the keys and values of its own queries, with tiles as in `tiles`.
double FlashCycles(const PartContext& context, const QueryTiles& tiles);

// Cycles if the queries of a block share keys and values in shared memory, by wgmma or mma; a multiprocessor
// holds `resident` blocks.
double StagedCycles(const PartContext& context, const QueryTiles& tiles, const StagedAttention& layout,
                    uint32_t resident);

// Cycles of the same if one warpgroup copies and two compute in turns.
double PipelinedCycles(const PartContext& context, const QueryTiles& tiles, const StagedAttention& layout);

// Cycles of the same in f32 by FMA.
double FmaCycles(const PartContext& context, const QueryTiles& tiles, const FmaAttention& layout);

}  // namespace rondo::cuda
