// Matmuls of 16-bit types and FP8 whose tiles TMA brings (sm_90a): one warp asks for boxes, warpgroups
// multiply them.
//
// The loops stand here as they are, not through pipeline.cuh: so that the compiler unrolls what asks for
// boxes, and keeps all it knows in registers. In a room of their own they took 2 to 4 % of a whole encoder
// (an H200).
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TMA_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/named_barrier.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/tma.cuh"
#include "compiler/codegen/cuda/device/tma_boxes.cuh"
#include "compiler/codegen/cuda/device/tma_layout.h"
#include "compiler/codegen/cuda/device/wgmma_fp8.cuh"

// f(BEGIN) to f(END - 1): what `#pragma unroll` does not do with a large body.
template <int BEGIN, int END, typename F>
DEV void unrolled(const F& f) {
  if constexpr (BEGIN < END) {
    f(BEGIN);
    unrolled<BEGIN + 1, END>(f);
  }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Lines of a share that exist, if `left` do from its first one on.
template <int SHARE>
DEV int lines_of(int left) {
  return left >= SHARE ? SHARE : left <= 0 ? 0 : left;
}

// Persistent: block after block takes its tiles, and copies go on while accumulators become results; so do
// matmuls where warpgroups take turns: each has its own tile, and stages go from one to the next in the order
// of tiles. `fetch` and `fetch_columns` read ahead what `epilogue` needs. `batch`: set to the batch of the
// tile that the two are called for. `a_rest`, `b_rest`: the maps of a and b for the last share, if it has
// fewer lines: TMA takes more than twice as long over a line that does not exist as over one that does.
// `out`, `half_out`, `runs`: the maps of results that TMA stores, in boxes of MATMUL.narrow() columns and of
// 16, and how they lie.
template <TmaMatmul MATMUL, typename Fetch, typename FetchColumns, typename Epilogue>
DEV void matmul_tma(u32 block, u32 blocks, TmaExtents problem, const TensorMap* a, const TensorMap* const* b,
                    const TensorMap* a_rest, const TensorMap* const* b_rest, const TensorMap* out,
                    const TensorMap* half_out, TmaRuns runs, u32& batch, Fetch fetch,
                    FetchColumns fetch_columns, Epilogue epilogue) {
  constexpr int M = MATMUL.m, N = MATMUL.n, STAGES = MATMUL.stages, B_COUNT = MATMUL.b_count;
  constexpr int CLUSTER_M = MATMUL.cluster_m, CLUSTER_N = MATMUL.cluster_n, SPLIT_K = MATMUL.split_k;
  constexpr int CLUSTER = MATMUL.cluster(), GROUPS = MATMUL.groups(), PEERS = MATMUL.peers();
  constexpr int TURNS = MATMUL.turns, TILE_GROUPS = MATMUL.tile_groups();
  constexpr int A_BYTES = MATMUL.a_bytes(), B_BYTES = MATMUL.b_bytes(), STAGE = MATMUL.stage();
  constexpr int AT_ONCE = MATMUL.at_once(), LANES = MATMUL.lanes;
  constexpr bool B_K_MAJOR = MATMUL.b_k_major, BF16 = MATMUL.factors == kTmaBF16;
  constexpr bool FP8 = MATMUL.fp8(), A_E5M2 = MATMUL.factors == kTmaE5M2E4M3 || MATMUL.factors == kTmaE5M2,
                 B_E5M2 = MATMUL.factors == kTmaE4M3E5M2 || MATMUL.factors == kTmaE5M2;
  const u32 rank = block % CLUSTER, k_part = rank / (CLUSTER_M * CLUSTER_N), cluster_m = rank % CLUSTER_M,
            cluster_n = rank / CLUSTER_M % CLUSTER_N;
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0), lane = threadIdx.x & 31;
  // Tiles in bands of BAND clusters' rows, so that blocks at work together share what they read.
  constexpr u32 BAND = 8;
  const u32 tall = (problem.m + CLUSTER_M * M - 1) / (CLUSTER_M * M),
            wide = (problem.n + CLUSTER_N * N - 1) / (CLUSTER_N * N), batch_tiles = tall * wide;
  const u32 tiles = batch_tiles * (u32)problem.batches;
  const int all = (problem.k + kTmaTileK - 1) / kTmaTileK, each = (all + SPLIT_K - 1) / SPLIT_K;
  const int begin = (int)k_part * each, end = begin + each < all ? begin + each : all;
  auto place = [&](u32 tile, int& m, int& n, u32& of) {
    of = tile / batch_tiles;
    const u32 t = tile % batch_tiles, band = t / (BAND * wide), in = t - band * BAND * wide,
              rows_left = tall - band * BAND;
    const u32 height = rows_left < BAND ? rows_left : BAND;
    m = (int)(((band * BAND + in % height) * CLUSTER_M + cluster_m) * M);
    n = (int)((in / height * CLUSTER_N + cluster_n) * N);
  };
  const u32 base = shared_address(shared_memory), memory = (base + 1023u) & ~1023u;
  const u32 pieces = memory + STAGES * STAGE, own_piece = pieces + warp * MATMUL.own_bytes();
  const u32 full = pieces + MATMUL.piece_bytes(), empty = full + 8 * STAGES;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
      mbarrier_init(full + 8 * s, 1);
      mbarrier_init(empty + 8 * s, TILE_GROUPS * PEERS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (threadIdx.x == 4 * GROUPS * 32) {
    prefetch_tensor_map(a);
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j) prefetch_tensor_map(b[j]);
    if (MATMUL.boxed) prefetch_tensor_map(out);
    if (MATMUL.half_box()) prefetch_tensor_map(half_out);
  }
  if (CLUSTER > 1)
    cluster_meet();
  else
    __syncthreads();

  if (warp == 4 * GROUPS) {
    if (lane == 0) {
      constexpr int A_SHARE = MATMUL.a_share(), B_SHARE = MATMUL.b_share();
      u32 a_peers = 0, b_peers = 0;  // bits of blocks that share tiles of A, and of B
#pragma unroll
      for (int c = 0; c < CLUSTER_N; ++c)
        a_peers |= 1u << (k_part * CLUSTER_M * CLUSTER_N + c * CLUSTER_M + cluster_m);
#pragma unroll
      for (int c = 0; c < CLUSTER_M; ++c)
        b_peers |= 1u << (k_part * CLUSTER_M * CLUSTER_N + cluster_n * CLUSTER_M + c);
      auto copy_a = [&](int stage, int m, int k, u32 z) {
        const int x = k * kTmaTileK, y = m + (int)cluster_n * A_SHARE, left = problem.m - y;
        if (left > 0)
          tma_copy<(CLUSTER_N > 1)>(memory + stage * STAGE + cluster_n * A_SHARE * 128,
                                    left >= A_SHARE ? a : a_rest, full + 8 * stage, a_peers,
                                    x % problem.k_run, y % problem.m_run, x / problem.k_run,
                                    y / problem.m_run, (int)z);
      };
      auto copy_b = [&](int stage, int n, int k, u32 z) {
#pragma unroll
        for (int j = 0; j < B_COUNT; ++j) {
          const u32 to = memory + stage * STAGE + A_BYTES + j * B_BYTES + cluster_m * B_SHARE * 128;
          if (B_K_MAJOR) {
            const int y = n + (int)cluster_m * B_SHARE, left = problem.n - y;
            if (left > 0)
              tma_copy<(CLUSTER_M > 1)>(to, left >= B_SHARE ? b[j] : b_rest[j], full + 8 * stage, b_peers,
                                        k * kTmaTileK, y, (int)z);
          } else {
#pragma unroll
            for (int p = 0; p < MATMUL.panels(); ++p)
              if (n + p * 64 < problem.n)
                tma_copy<(CLUSTER_M > 1)>(to + p * 8192, b[j], full + 8 * stage, b_peers, n + p * 64,
                                          k * kTmaTileK + (int)cluster_m * B_SHARE, (int)z);
          }
        }
      };
      // What this and other blocks copy into a stage of this one.
      auto bytes_of = [&](int m, int n) {
        int lines = 0, b_lines = 0;
#pragma unroll
        for (int c = 0; c < CLUSTER_N; ++c) lines += lines_of<A_SHARE>(problem.m - m - c * A_SHARE);
        if (B_K_MAJOR) {
#pragma unroll
          for (int c = 0; c < CLUSTER_M; ++c) b_lines += lines_of<B_SHARE>(problem.n - n - c * B_SHARE);
        } else {
          b_lines = lines_of<MATMUL.panels()>((problem.n - n + 63) / 64) * 64;
        }
        return (u32)(lines + B_COUNT * b_lines) * 128u;
      };
      int m, n, stage = 0;
      u32 z, phase = 1;
      const u32 first = block / CLUSTER;
      int ahead = 0;  // stages whose tiles of B were asked for early
      if (MATMUL.early > 0 && first < tiles) {
        place(first, m, n, z);
        for (; ahead < MATMUL.early && begin + ahead < end; ++ahead) {
          mbarrier_expect(full + 8 * ahead, bytes_of(m, n));
          copy_b(ahead, n, begin + ahead, z);
        }
      }
      wait_for_earlier();
      for (u32 tile = first; tile < tiles; tile += blocks / CLUSTER) {
        place(tile, m, n, z);
        const u32 bytes = bytes_of(m, n);
        for (int k = begin; k < end; ++k) {
          if (ahead > 0) {
            --ahead;
          } else {
            mbarrier_wait(empty + 8 * stage, phase);
            mbarrier_expect(full + 8 * stage, bytes);
            copy_b(stage, n, k, z);
          }
          copy_a(stage, m, k, z);
          if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
          }
        }
      }
      // No block ends while others of its cluster may still say here that a stage is free.
      for (int s = 0; CLUSTER > 1 && SPLIT_K == 1 && s < STAGES; ++s) {
        mbarrier_wait(empty + 8 * stage, phase);
        if (++stage == STAGES) {
          stage = 0;
          phase ^= 1;
        }
      }
    }
    __syncwarp();
  } else if (warp < 4 * GROUPS) {
    const u32 group = (warp >> 2) % TILE_GROUPS, thread = threadIdx.x & 127;
    u32 others = (warp >> 2) / TILE_GROUPS;  // tiles before the next one of this group
    // Blocks that copy into this one: they must know when a stage is free.
    u32 peer = 0;
    if (thread < PEERS)
      peer = k_part * CLUSTER_M * CLUSTER_N +
             (thread < CLUSTER_M
                  ? cluster_n * CLUSTER_M + thread
                  : (thread - CLUSTER_M + (thread - CLUSTER_M >= cluster_n)) * CLUSTER_M + cluster_m);
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
      if (TURNS > 1 && others-- > 0) {
        stage += end - begin;
        phase ^= stage / STAGES & 1;
        stage %= STAGES;
        continue;
      }
      others = TURNS - 1;
      // A barrier's parity says nothing of the phase before the last: a set of warpgroups waits for stages
      // once the set before it has seen all of its own.
      const u32 turn = (warp >> 2) / TILE_GROUPS;
      int m, n;
      place(tile, m, n, batch);
      // What the epilogue reads besides is asked for while stages are on their way: as much as there are
      // registers for.
      constexpr int CALLS = MATMUL.most_calls();
      u32 words[SPLIT_K == 1 ? MATMUL.pieces() : 2][CALLS][MATMUL.fetched_words()] = {};
      const int first_m = m + warp % (4 * TILE_GROUPS) * 16;
      // Where call `i` of a piece is: false if there is no such point.
      auto spot = [&](int i, int piece, int& r, int& at) -> bool {
        if (MATMUL.boxed) {
          const int row = i % 2 * 8 + lane / 4, last = problem.m - 1 - first_m;
          r = row < last ? row : last;
          at = MATMUL.first_column(piece) + i / 2 * 32 + lane % 4 * 8;
          return last >= 0 && n + at < problem.n && at < N;
        }
        const int q = i * 32 + lane, rows = MATMUL.rows(piece), vectors = MATMUL.columns(piece) / LANES;
        r = MATMUL.first_row(piece) + (MATMUL.down ? q % rows : q / vectors);
        at = MATMUL.first_column(piece) + (MATMUL.down ? q / rows : q % vectors) * LANES;
        return (rows * vectors % 32 == 0 || q < rows * vectors) && first_m + r < problem.m &&
               n + at < problem.n;
      };
      auto fetch_pieces = [&](int from, int to) {
#pragma unroll
        for (int p = 0; p < MATMUL.pieces(); ++p)
#pragma unroll
          for (int i = 0; i < MATMUL.calls(p); ++i) {
            int r, at;
            if (p >= from && p < to && spot(i, p, r, at)) fetch(first_m + r, n + at, words[p][i]);
          }
      };
      // Where K is split: of the block's share of the tile.
      constexpr int PIECES = N / LANES, SHARE = M / SPLIT_K;
      auto spot_of_share = [&](int p, int& r, int& c) -> bool {
        r = (int)k_part * SHARE + (MATMUL.down ? p % SHARE : p / PIECES);
        c = (MATMUL.down ? p / SHARE : p % PIECES) * LANES;
        return p < SHARE * PIECES && m + r < problem.m && n + c < problem.n;
      };
      u32 columns[MATMUL.of_columns > 0 ? N / 8 : 1][MATMUL.column_words()] = {};
      if constexpr (MATMUL.of_columns > 0) {
#pragma unroll
        for (int e = 0; e < N / 8; ++e)
          if (n + e * 8 < problem.n) fetch_columns(n + e * 8 + lane % 4 * 2, columns[e]);
      }
      if (SPLIT_K == 1) {
        fetch_pieces(0, MATMUL.fetched(0));
      } else {
        int r, c;
        if (spot_of_share(threadIdx.x, r, c)) fetch(m + r, n + c, words[0][0]);
      }
      if (TURNS > 1 && tile != block / CLUSTER) named_sync<2 * TILE_GROUPS * 128>(1 + turn);
      float acc[B_COUNT * N / 2];
#pragma unroll
      for (int x = 0; x < B_COUNT * N / 2; ++x) acc[x] = 0;
      int last = -1;
#pragma unroll 1
      for (int k = begin; k < end; ++k) {
        mbarrier_wait(full + 8 * stage, phase);
        const u32 a_tile = memory + stage * STAGE + group * 8192, b_tiles = memory + stage * STAGE + A_BYTES;
        if constexpr (FP8) {
          float sums[B_COUNT * N / 2];
          wgmma_fp8_stage<N, B_COUNT, B_BYTES, AT_ONCE, A_E5M2, B_E5M2>(sums, a_tile, b_tiles);
          wgmma_wait<0>();
#pragma unroll
          for (int x = 0; x < B_COUNT * N / 2; ++x) acc[x] += sums[x];
        } else {
          wgmma_fence();
#pragma unroll
          for (int s = 0; s < kTmaTileK / 16; ++s)
#pragma unroll
            for (int j = 0; j < B_COUNT; j += AT_ONCE)
              wgmma<N * AT_ONCE, BF16, !B_K_MAJOR>(
                  acc + j * N / 2, wgmma_descriptor(a_tile + s * 32, 0),
                  wgmma_descriptor(b_tiles + j * B_BYTES + s * (B_K_MAJOR ? 32 : 2048),
                                   B_K_MAJOR ? 0 : 8192));
          wgmma_commit();
          wgmma_wait<1>();
        }
        if (last >= 0) release(last);
        last = stage;
        if (++stage == STAGES) {
          stage = 0;
          phase ^= 1;
        }
      }
      if (TURNS > 1 && tile + blocks / CLUSTER < tiles)
        named_arrive<2 * TILE_GROUPS * 128>(1 + (turn + 1) % TURNS);
      if (SPLIT_K == 1) {
        wgmma_wait<0>();
        if (last >= 0) release(last);
        float* own = (float*)(shared_memory + (own_piece - base));
        unrolled<0, MATMUL.pieces()>([&](int piece) {
          if constexpr (MATMUL.boxed != 0) {
            store_piece<MATMUL>(piece, own_piece + piece % MATMUL.boxes() * MATMUL.box_bytes(), acc,
                                words[piece], columns, first_m, n, problem, batch, out, half_out, runs,
                                epilogue);
            fetch_pieces(MATMUL.fetched(piece), MATMUL.fetched(piece + 1));
            return;
          }
          const int c = MATMUL.first_column(piece), top = MATMUL.first_row(piece), rows = MATMUL.rows(piece),
                    pitch = MATMUL.pitch(piece);
          __syncwarp();
#pragma unroll
          for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
            for (int x = 0; x < MATMUL.columns(piece) / 2; x += 2) {
              const int row = (x & 2) * 4 - top;
              if (row < 0 || row >= rows) continue;
              *(float2*)(own + (j * rows + (lane >> 2) + row) * pitch + x / 4 * 8 + (lane & 3) * 2) =
                  make_float2(acc[(j * N + c) / 2 + x], acc[(j * N + c) / 2 + x + 1]);
            }
          fetch_pieces(MATMUL.fetched(piece), MATMUL.fetched(piece + 1));
          __syncwarp();
#pragma unroll
          for (int i = 0; i < MATMUL.calls(piece); ++i) {
            int r, at;
            if (!spot(i, piece, r, at)) continue;
            float sums[B_COUNT * LANES];
#pragma unroll
            for (int j = 0; j < B_COUNT; ++j)
              load_shared<LANES>(own + (j * rows + r - top) * pitch + at - c, sums + j * LANES);
            if constexpr (MATMUL.boxed == 0) epilogue(first_m + r, n + at, sums, words[piece][i]);
          }
        });
      } else if constexpr (SPLIT_K > 1) {
        // All stages are free: every block of a cluster has one tile.
        constexpr int PITCH = AccumulatorsPitch(N);
        int r, c;
        wgmma_wait<0>();
        asm volatile("bar.sync 1, %0;" ::"n"(GROUPS * 128) : "memory");
        float* sums = (float*)(shared_memory + (memory - base));
#pragma unroll
        for (int j = 0; j < B_COUNT; ++j)
#pragma unroll
          for (int x = 0; x < N / 2; x += 2)
            *(float2*)(sums + (j * M + warp * 16 + (lane >> 2) + (x & 2) * 4) * PITCH + x / 4 * 8 +
                       (lane & 3) * 2) = make_float2(acc[j * N / 2 + x], acc[j * N / 2 + x + 1]);
        cluster_barrier();
#pragma unroll
        for (int i = 0; i < (SHARE * PIECES + GROUPS * 128 - 1) / (GROUPS * 128); ++i) {
          const int p = i * GROUPS * 128 + threadIdx.x;
          if (spot_of_share(p + GROUPS * 128, r, c)) fetch(m + r, n + c, words[i + 1 & 1][0]);
          if (!spot_of_share(p, r, c)) continue;
          float x[B_COUNT * LANES];
#pragma unroll
          for (int j = 0; j < B_COUNT; ++j)
            sum_blocks<SPLIT_K, LANES>(shared_address(sums + (j * M + r) * PITCH + c),
                                       rank % (CLUSTER_M * CLUSTER_N), CLUSTER_M * CLUSTER_N, x + j * LANES);
          epilogue(m + r, n + c, x, words[i & 1][0]);
        }
      }
    }
  }
  if (MATMUL.boxed && lane == 0) wait_stores();
  // No block ends while others of its cluster may still read its accumulators.
  if (SPLIT_K > 1 && warp >= 4 * GROUPS) cluster_barrier();
  if (SPLIT_K > 1) cluster_meet();
}
#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TMA_CUH_
