// Matmuls of 16-bit types whose tiles TMA brings (sm_90a): one warp asks for boxes, groups of four warps
// multiply them.
//
// The loops stand here as they are, not through pipeline.cuh: so that the compiler unrolls what asks for
// boxes, and keeps all it knows in registers. In a room of their own they took 2 to 4 % of a whole encoder
// (an H200).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TMA_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/tile_layout.h"
#include "compiler/codegen/cuda/device/tma.cuh"
#include "compiler/codegen/cuda/device/tma_tiles.cuh"
#include "compiler/codegen/cuda/device/wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Persistent: block after block takes its tiles, and copies go on while sums become results. The left side's
// rows lie evenly in runs of row_run, its depth in runs of depth_run. `fetch` reads ahead what `finish` needs
// in WORDS words.
template <int M, int N, int STAGES, int RIGHTS, int DOWN, int ACROSS, int SPLIT, bool RIGHT_ALONG, int VECTOR,
          bool BF16, bool EARLY, int WORDS, typename Fetch, typename Finish>
DEV void matmul_tma(u32 block, u32 blocks, int rows, int columns, int depth, int batches, int row_run,
                    int depth_run, const TensorMap* left, const TensorMap* const* right, u32& batch,
                    Fetch fetch, Finish finish) {
  using T = TmaTiles<M, N, STAGES, RIGHTS, DOWN, ACROSS, SPLIT, RIGHT_ALONG>;
  constexpr int CLUSTER = T::CLUSTER, GROUPS = T::GROUPS, DEEP = T::TILE_K, PEERS = T::PEERS;
  const u32 rank = block % CLUSTER, part = rank / (DOWN * ACROSS), down = rank % DOWN,
            across = rank / DOWN % ACROSS;
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  // Tiles in bands of BAND clusters' rows, so that blocks at work together share what they read.
  constexpr u32 BAND = 8;
  const u32 tall = (rows + DOWN * M - 1) / (DOWN * M), wide = (columns + ACROSS * N - 1) / (ACROSS * N),
            each_batch = tall * wide;
  const u32 tiles = each_batch * (u32)batches;
  const int all = (depth + DEEP - 1) / DEEP, each = (all + SPLIT - 1) / SPLIT;
  const int begin = (int)part * each, end = begin + each < all ? begin + each : all;
  auto place = [&](u32 tile, int& row, int& column, u32& of) {
    of = tile / each_batch;
    const u32 t = tile % each_batch, band = t / (BAND * wide), in = t - band * BAND * wide,
              left_rows = tall - band * BAND;
    const u32 height = left_rows < BAND ? left_rows : BAND;
    row = (int)(((band * BAND + in % height) * DOWN + down) * M);
    column = (int)((in / height * ACROSS + across) * N);
  };
  const u32 base = shared_address(shared_memory), memory = (base + 1023u) & ~1023u;
  const u32 full = memory + STAGES * T::STAGE, empty = full + 8 * STAGES;
  float* own = (float*)(shared_memory + (empty + 8 * STAGES - base)) + warp * T::OWN;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
      mbarrier_init(full + 8 * s, 1);
      mbarrier_init(empty + 8 * s, GROUPS * PEERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (threadIdx.x == 4 * GROUPS * 32) {
    prefetch_tensor_map(left);
#pragma unroll
    for (int j = 0; j < RIGHTS; ++j) prefetch_tensor_map(right[j]);
  }
  if (CLUSTER > 1)
    cluster_barrier();
  else
    __syncthreads();

  if (warp == 4 * GROUPS) {
    if (lane == 0) {
      constexpr int LEFT_SHARE = T::A_SHARE, RIGHT_SHARE = T::B_SHARE;
      u32 row_peers = 0, column_peers = 0;  // bits of blocks that share the rows, and the columns
#pragma unroll
      for (int a = 0; a < ACROSS; ++a) row_peers |= 1u << (part * DOWN * ACROSS + a * DOWN + down);
#pragma unroll
      for (int d = 0; d < DOWN; ++d) column_peers |= 1u << (part * DOWN * ACROSS + across * DOWN + d);
      auto copy_left = [&](int stage, int row, int k, u32 z) {
        const int x = k * DEEP, y = row + (int)across * LEFT_SHARE;
        tma_copy<(ACROSS > 1)>(memory + stage * T::STAGE + across * LEFT_SHARE * 128, left, full + 8 * stage,
                               row_peers, x % depth_run, y % row_run, x / depth_run, y / row_run, (int)z);
      };
      auto copy_right = [&](int stage, int column, int k, u32 z) {
#pragma unroll
        for (int j = 0; j < RIGHTS; ++j) {
          const u32 to = memory + stage * T::STAGE + T::A_BYTES + j * T::B_BYTES + down * RIGHT_SHARE * 128;
          if (RIGHT_ALONG) {
            tma_copy<(DOWN > 1)>(to, right[j], full + 8 * stage, column_peers, k * DEEP,
                                 column + (int)down * RIGHT_SHARE, (int)z);
          } else {
#pragma unroll
            for (int p = 0; p < T::PANELS; ++p)
              tma_copy<(DOWN > 1)>(to + p * 8192, right[j], full + 8 * stage, column_peers, column + p * 64,
                                   k * DEEP + (int)down * RIGHT_SHARE, (int)z);
          }
        }
      };
      int row, column, stage = 0;
      u32 z, phase = 1;
      const u32 first = block / CLUSTER;
      int ahead = 0;  // stages whose right side was asked for early
      if (EARLY && first < tiles) {
        place(first, row, column, z);
        for (; ahead < STAGES && begin + ahead < end; ++ahead) {
          mbarrier_expect(full + 8 * ahead, T::STAGE);
          copy_right(ahead, column, begin + ahead, z);
        }
      }
      wait_for_earlier();
      for (u32 tile = first; tile < tiles; tile += blocks / CLUSTER) {
        place(tile, row, column, z);
        for (int k = begin; k < end; ++k) {
          if (ahead > 0) {
            --ahead;
          } else {
            mbarrier_wait(empty + 8 * stage, phase);
            mbarrier_expect(full + 8 * stage, T::STAGE);
            copy_right(stage, column, k, z);
          }
          copy_left(stage, row, k, z);
          if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
          }
        }
      }
    }
    __syncwarp();
  } else if (warp < 4 * GROUPS) {
    const u32 group = warp >> 2, thread = threadIdx.x & 127;
    // Blocks that copy into this one: told when a stage is free.
    u32 peer = 0;
    if (thread < PEERS)
      peer =
          part * DOWN * ACROSS + (thread < DOWN ? across * DOWN + thread
                                                : (thread - DOWN + (thread - DOWN >= across)) * DOWN + down);
    const u32 free = CLUSTER > 1 && thread < PEERS ? remote_shared(empty, peer) : empty;
    auto release = [&](int stage) {
      if (CLUSTER > 1) {
        if (thread < PEERS) mbarrier_arrive_remote(free + 8 * stage);
      } else if (thread == 0) {
        mbarrier_arrive(free + 8 * stage);
      }
    };
    wait_for_earlier();
    int stage = 0;
    u32 phase = 0;
#pragma unroll 1
    for (u32 tile = block / CLUSTER; tile < tiles; tile += blocks / CLUSTER) {
      int row, column;
      place(tile, row, column, batch);
      float acc[RIGHTS * N / 2];
#pragma unroll
      for (int x = 0; x < RIGHTS * N / 2; ++x) acc[x] = 0;
      int last = -1;
#pragma unroll 1
      for (int k = begin; k < end; ++k) {
        mbarrier_wait(full + 8 * stage, phase);
        const u32 lefts = memory + stage * T::STAGE + group * 8192,
                  rights = memory + stage * T::STAGE + T::A_BYTES;
        wgmma_fence();
#pragma unroll
        for (int s = 0; s < DEEP / 16; ++s)
#pragma unroll
          for (int j = 0; j < RIGHTS; j += T::AT_ONCE)
            wgmma<N * T::AT_ONCE, BF16, !RIGHT_ALONG>(
                acc + j * N / 2, wgmma_descriptor(lefts + s * 32, 0),
                wgmma_descriptor(rights + j * T::B_BYTES + s * (RIGHT_ALONG ? 32 : 2048),
                                 RIGHT_ALONG ? 0 : 8192));
        wgmma_commit();
        wgmma_wait<1>();
        if (last >= 0) release(last);
        last = stage;
        if (++stage == STAGES) {
          stage = 0;
          phase ^= 1;
        }
      }
      if (SPLIT == 1) {
        // Sums go through shared memory in pieces of PIECE columns; what the next piece reads besides is
        // asked for ahead.
        constexpr int VECTORS = T::PIECE / VECTOR, CALLS = (16 * VECTORS + 31) / 32;
        u32 words[2][CALLS][WORDS > 0 ? WORDS : 1];
        const int first_row = row + warp * 16;
        // Where call `i` of a piece is: false if there is no such point.
        auto spot = [&](int i, int c, int& r, int& at) -> bool {
          const int q = i * 32 + lane;
          r = q / VECTORS;
          at = c + q % VECTORS * VECTOR;
          return (16 * VECTORS % 32 == 0 || q < 16 * VECTORS) && first_row + r < rows &&
                 column + at < columns;
        };
        auto fetch_piece = [&](int c) {
#pragma unroll
          for (int i = 0; i < CALLS; ++i) {
            int r, at;
            if (spot(i, c, r, at)) fetch(first_row + r, column + at, words[c / T::PIECE & 1][i]);
          }
        };
        fetch_piece(0);
        wgmma_wait<0>();
        if (last >= 0) release(last);
#pragma unroll
        for (int c = 0; c < N; c += T::PIECE) {
          __syncwarp();
#pragma unroll
          for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
            for (int x = 0; x < T::PIECE / 2; x += 2)
              *(float2*)(own + (j * 16 + (lane >> 2) + (x & 2) * 4) * T::PITCH + x / 4 * 8 + (lane & 3) * 2) =
                  make_float2(acc[(j * N + c) / 2 + x], acc[(j * N + c) / 2 + x + 1]);
          if (c + T::PIECE < N) fetch_piece(c + T::PIECE);
          __syncwarp();
#pragma unroll
          for (int i = 0; i < CALLS; ++i) {
            int r, at;
            if (!spot(i, c, r, at)) continue;
            float sums[RIGHTS * VECTOR];
#pragma unroll
            for (int j = 0; j < RIGHTS; ++j)
              load_shared<VECTOR>(own + (j * 16 + r) * T::PITCH + at - c, sums + j * VECTOR);
            finish(first_row + r, column + at, sums, words[c / T::PIECE & 1][i]);
          }
        }
      } else {
        // All stages are free: every block of a cluster has one tile.
        constexpr int PITCH = AccumulatorsPitch(N), PIECES = N / VECTOR, SHARE = M / SPLIT;
        u32 words[2][WORDS > 0 ? WORDS : 1];
        auto spot = [&](int p, int& r, int& c) -> bool {
          r = (int)part * SHARE + p / PIECES;
          c = p % PIECES * VECTOR;
          return p < SHARE * PIECES && row + r < rows && column + c < columns;
        };
        int r, c;
        if (spot(threadIdx.x, r, c)) fetch(row + r, column + c, words[0]);
        wgmma_wait<0>();
        asm volatile("bar.sync 1, %0;" ::"n"(GROUPS * 128) : "memory");
        float* sums = (float*)(shared_memory + (memory - base));
#pragma unroll
        for (int j = 0; j < RIGHTS; ++j)
#pragma unroll
          for (int x = 0; x < N / 2; x += 2)
            *(float2*)(sums + (j * M + warp * 16 + (lane >> 2) + (x & 2) * 4) * PITCH + x / 4 * 8 +
                       (lane & 3) * 2) = make_float2(acc[j * N / 2 + x], acc[j * N / 2 + x + 1]);
        cluster_barrier();
#pragma unroll
        for (int i = 0; i < (SHARE * PIECES + GROUPS * 128 - 1) / (GROUPS * 128); ++i) {
          const int p = i * GROUPS * 128 + threadIdx.x;
          if (spot(p + GROUPS * 128, r, c)) fetch(row + r, column + c, words[i + 1 & 1]);
          if (!spot(p, r, c)) continue;
          float x[RIGHTS * VECTOR];
#pragma unroll
          for (int j = 0; j < RIGHTS; ++j)
            sum_blocks<SPLIT, VECTOR>(shared_address(sums + (j * M + r) * PITCH + c), rank % (DOWN * ACROSS),
                                      DOWN * ACROSS, x + j * VECTOR);
          finish(row + r, column + c, x, words[i & 1]);
        }
      }
    }
  }
  // No block ends while others of its cluster may still tell it something.
  if (SPLIT > 1 && warp >= 4 * GROUPS) cluster_barrier();
  if (CLUSTER > 1) cluster_barrier();
}
#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TMA_CUH_
