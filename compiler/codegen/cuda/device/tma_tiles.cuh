// How a matmul whose tiles TMA brings is cut: tiles, the blocks of a cluster, and which block takes which
// tiles.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_TILES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_TILES_CUH_

#include "compiler/codegen/cuda/device/pipeline.cuh"
#include "compiler/codegen/cuda/device/tma.cuh"
#include "compiler/codegen/cuda/device/tma_layout.h"

// A TmaLayout (tma_layout.h) as constants.
template <int M, int N, int STAGES_, int COUNT, int DOWN_, int ACROSS_, int SPLIT_, bool B_ALONG_>
struct TmaTiles {
  static constexpr TmaLayout LAYOUT = {M, N, COUNT, DOWN_, ACROSS_, SPLIT_, B_ALONG_};
  static constexpr int TILE_M = M, TILE_N = N, TILE_K = kTmaTileK, STAGES = STAGES_, B_COUNT = COUNT;
  static constexpr int DOWN = DOWN_, ACROSS = ACROSS_, SPLIT = SPLIT_, CLUSTER = LAYOUT.cluster();
  static constexpr int GROUPS = LAYOUT.groups(), PEERS = LAYOUT.peers();
  static constexpr bool B_ALONG = B_ALONG_;
  static constexpr int AT_ONCE = LAYOUT.at_once(), PANELS = LAYOUT.panels();
  static constexpr int A_SHARE = LAYOUT.a_share(), B_SHARE = LAYOUT.b_share();
  static constexpr int A_BYTES = LAYOUT.a_bytes(), B_BYTES = LAYOUT.b_bytes(), STAGE = LAYOUT.stage();
  static constexpr int PIECE = LAYOUT.piece(), PITCH = LAYOUT.piece_pitch(), OWN = LAYOUT.piece_floats();
};

// `batches` matmuls, M x N x K. A's rows lie evenly in runs of a_row_run, its K in runs of a_k_run.
struct TmaProblem {
  int m, n, k, batches, a_row_run, a_k_run;
  const BulkMap* a;
  const BulkMap* const* b;  // of each B
};

// The tiles of a block: tile number `first`, then every `stride`th below `tiles`.
template <typename T>
struct TmaSchedule {
  u32 down, across, part;  // of this block in its cluster: of those that share columns, share rows, split K
  u32 tall, wide, each_batch, tiles, first, stride;
  Steps steps;

  MEMBER TmaSchedule(u32 block, u32 blocks, const TmaProblem& p) {
    const u32 rank = block % T::CLUSTER;
    part = rank / (T::DOWN * T::ACROSS);
    down = rank % T::DOWN;
    across = rank / T::DOWN % T::ACROSS;
    tall = (p.m + T::DOWN * T::TILE_M - 1) / (T::DOWN * T::TILE_M);
    wide = (p.n + T::ACROSS * T::TILE_N - 1) / (T::ACROSS * T::TILE_N);
    each_batch = tall * wide;
    tiles = each_batch * (u32)p.batches;
    first = block / T::CLUSTER;
    stride = blocks / T::CLUSTER;
    steps = steps_of<T::TILE_K, T::SPLIT>(p.k, (int)part);
  }
  // Tiles in bands of BAND clusters' rows, so that blocks at work together share what they read.
  MEMBER void place(u32 tile, int& row, int& column, u32& batch) const {
    constexpr u32 BAND = 8;
    batch = tile / each_batch;
    const u32 t = tile % each_batch, band = t / (BAND * wide), in = t - band * BAND * wide,
              rows_left = tall - band * BAND;
    const u32 height = rows_left < BAND ? rows_left : BAND;
    row = (int)(((band * BAND + in % height) * T::DOWN + down) * T::TILE_M);
    column = (int)((in / height * T::ACROSS + across) * T::TILE_N);
  }
  // The rank in the cluster of the block at these places that has the same part of K.
  MEMBER u32 rank_of(u32 d, u32 a) const { return part * T::DOWN * T::ACROSS + a * T::DOWN + d; }
};

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_TMA_TILES_CUH_
