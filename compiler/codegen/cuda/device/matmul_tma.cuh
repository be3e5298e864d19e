// Matmuls of 16-bit types whose tiles TMA brings (sm_90a): one warp asks for boxes, groups of four warps
// multiply them. Persistent: block after block takes its tiles, and copies go on while sums become results.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TMA_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TMA_CUH_

#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/shared_memory.cuh"
#include "compiler/codegen/cuda/device/tile_sums.cuh"
#include "compiler/codegen/cuda/device/tma_stages.cuh"
#include "compiler/codegen/cuda/device/tma_tiles.cuh"
#include "compiler/codegen/cuda/device/wgmma_tile.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// One thread's: asks for the boxes of all tiles of the block. EARLY: B is constant, and what of it fits into
// the stages is asked for before the kernels ahead are complete.
template <typename T, bool EARLY>
struct TmaCopier {
  const TmaSchedule<T>& schedule;
  const TmaProblem& problem;
  const TmaMemory<T::STAGES, T::STAGE>& memory;
  u32 row_peers = 0, column_peers = 0;  // bits of blocks that share the rows, and the columns

  MEMBER TmaCopier(const TmaSchedule<T>& schedule, const TmaProblem& problem,
                   const TmaMemory<T::STAGES, T::STAGE>& memory)
      : schedule(schedule), problem(problem), memory(memory) {
#pragma unroll
    for (int a = 0; a < T::ACROSS; ++a) row_peers |= 1u << schedule.rank_of(schedule.down, a);
#pragma unroll
    for (int d = 0; d < T::DOWN; ++d) column_peers |= 1u << schedule.rank_of(d, schedule.across);
  }
  MEMBER void copy_a(int stage, int row, int step, u32 batch) const {
    constexpr int SHARE = T::A_SHARE;
    const int x = step * T::TILE_K, y = row + (int)schedule.across * SHARE;
    copy_box<(T::ACROSS > 1)>(memory.stage(stage) + schedule.across * SHARE * 128, problem.a,
                              memory.full + 8 * stage, row_peers, x % problem.a_k_run, y % problem.a_row_run,
                              x / problem.a_k_run, y / problem.a_row_run, (int)batch);
  }
  MEMBER void copy_b(int stage, int column, int step, u32 batch) const {
    constexpr int SHARE = T::B_SHARE;
#pragma unroll
    for (int j = 0; j < T::B_COUNT; ++j) {
      const u32 to = memory.stage(stage) + T::A_BYTES + j * T::B_BYTES + schedule.down * SHARE * 128;
      if (T::B_ALONG) {
        copy_box<(T::DOWN > 1)>(to, problem.b[j], memory.full + 8 * stage, column_peers, step * T::TILE_K,
                                column + (int)schedule.down * SHARE, (int)batch);
      } else {
#pragma unroll
        for (int p = 0; p < T::PANELS; ++p)
          copy_box<(T::DOWN > 1)>(to + p * 8192, problem.b[j], memory.full + 8 * stage, column_peers,
                                  column + p * 64, step * T::TILE_K + (int)schedule.down * SHARE, (int)batch);
      }
    }
  }
  MEMBER void run() const {
    const int begin = schedule.steps.begin, end = schedule.steps.end;
    int row, column;
    u32 batch;
    StageCount<T::STAGES> at(1);
    int ahead = 0;  // stages whose B was asked for early
    if (EARLY && schedule.first < schedule.tiles) {
      schedule.place(schedule.first, row, column, batch);
      for (; ahead < T::STAGES && begin + ahead < end; ++ahead) {
        memory.expect(ahead);
        copy_b(ahead, column, begin + ahead, batch);
      }
    }
    wait_for_earlier();
    for (u32 tile = schedule.first; tile < schedule.tiles; tile += schedule.stride) {
      schedule.place(tile, row, column, batch);
      for (int step = begin; step < end; ++step) {
        if (ahead > 0) {
          --ahead;
        } else {
          memory.wait_empty(at);
          memory.expect(at.stage);
          copy_b(at.stage, column, step, batch);
        }
        copy_a(at.stage, row, step, batch);
        at.next();
      }
    }
  }
};

// The Multiply of run_pipeline by one group of four warps.
template <typename T, bool BF16>
struct TmaGroup {
  static constexpr bool RUNS_ON = true;

  const TmaMemory<T::STAGES, T::STAGE>& memory;
  WgmmaTile<T::TILE_N, T::B_COUNT, T::B_BYTES, T::AT_ONCE, T::B_ALONG, BF16> tile;

  MEMBER explicit TmaGroup(const TmaMemory<T::STAGES, T::STAGE>& memory) : memory(memory) { tile.zero(); }
  MEMBER void multiply(int stage) {
    const u32 group = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 7, 0), at = memory.stage(stage);
    tile.multiply(at + group * tile.GROUP_BYTES, at + T::A_BYTES);
  }
  MEMBER void wait_for_earlier_steps() { group_wait<1>(); }
};

// What becomes of a group's accumulators: finish(row, column, sums, words) for VECTOR neighbouring points at
// a time; fetch(row, column, words) reads ahead, into WORDS words, what finish needs of them.

// Where blocks do not split K: a warp puts its 16 rows, from (row, column) on, through shared memory of its
// own, `own`, in pieces of PIECE columns; what the next piece reads besides is asked for ahead.
template <typename T, int VECTOR, int WORDS, typename Group, typename Fetch, typename Finish>
struct PieceStore {
  static constexpr int VECTORS = T::PIECE / VECTOR, CALLS = (16 * VECTORS + 31) / 32;

  const Group& group;
  float* own;
  int row, column, m, n;
  Fetch fetch;
  Finish finish;
  u32 words[2][CALLS][WORDS > 0 ? WORDS : 1];

  MEMBER PieceStore(const Group& group, float* own, int row, int column, int m, int n, Fetch fetch,
                    Finish finish)
      : group(group), own(own), row(row), column(column), m(m), n(n), fetch(fetch), finish(finish) {}
  // Where call `i` of the piece from column c on is: false if there is no such point.
  MEMBER bool spot(int i, int c, int& r, int& at) const {
    const int q = i * 32 + (threadIdx.x & 31);
    r = q / VECTORS;
    at = c + q % VECTORS * VECTOR;
    return (16 * VECTORS % 32 == 0 || q < 16 * VECTORS) && row + r < m && column + at < n;
  }
  MEMBER void fetch_piece(int c) {
#pragma unroll
    for (int i = 0; i < CALLS; ++i) {
      int r, at;
      if (spot(i, c, r, at)) fetch(row + r, column + at, words[c / T::PIECE & 1][i]);
    }
  }
  // The piece from column c on.
  MEMBER void piece(int c) {
    __syncwarp();
#pragma unroll
    for (int j = 0; j < T::B_COUNT; ++j)
      group.tile.template store<T::PIECE>(own + j * 16 * T::PITCH, T::PITCH, j, c);
    if (c + T::PIECE < T::TILE_N) fetch_piece(c + T::PIECE);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < CALLS; ++i) {
      int r, at;
      if (!spot(i, c, r, at)) continue;
      float sums[T::B_COUNT * VECTOR];
#pragma unroll
      for (int j = 0; j < T::B_COUNT; ++j)
        load_shared<VECTOR>(own + (j * 16 + r) * T::PITCH + at - c, sums + j * VECTOR);
      finish(row + r, column + at, sums, words[c / T::PIECE & 1][i]);
    }
  }
  MEMBER void store() {
#pragma unroll
    for (int c = 0; c < T::TILE_N; c += T::PIECE) piece(c);
  }
};

// Where they do, and each has but one tile: all put their accumulators where the stages were, `sums`, and
// each finishes its share of the rows.
template <typename T, int VECTOR, int WORDS, typename Group, typename Fetch, typename Finish>
DEV void store_split(const Group& group, float* sums, u32 rank, u32 part, int row, int column, int m, int n,
                     Fetch fetch, Finish finish) {
  constexpr int PITCH = SumsPitch(T::TILE_N), PIECES = T::TILE_N / VECTOR, SHARE = T::TILE_M / T::SPLIT;
  constexpr int THREADS = T::GROUPS * 128;
  const int warp = threadIdx.x >> 5;
  u32 words[2][WORDS > 0 ? WORDS : 1];
  auto spot = [&](int p, int& r, int& c) -> bool {
    r = (int)part * SHARE + p / PIECES;
    c = p % PIECES * VECTOR;
    return p < SHARE * PIECES && row + r < m && column + c < n;
  };
  int r, c;
  if (spot(threadIdx.x, r, c)) fetch(row + r, column + c, words[0]);
  group_wait<0>();
  asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
#pragma unroll
  for (int j = 0; j < T::B_COUNT; ++j)
    group.tile.template store<T::TILE_N>(sums + (j * T::TILE_M + warp * 16) * PITCH, PITCH, j, 0);
  cluster_barrier();
#pragma unroll
  for (int i = 0; i < (SHARE * PIECES + THREADS - 1) / THREADS; ++i) {
    const int p = i * THREADS + threadIdx.x;
    if (spot(p + THREADS, r, c)) fetch(row + r, column + c, words[i + 1 & 1]);
    if (!spot(p, r, c)) continue;
    float x[T::B_COUNT * VECTOR];
#pragma unroll
    for (int j = 0; j < T::B_COUNT; ++j)
      sum_blocks<T::SPLIT, VECTOR>(shared_address(sums + (j * T::TILE_M + r) * PITCH + c),
                                   rank % (T::DOWN * T::ACROSS), T::DOWN * T::ACROSS, x + j * VECTOR);
    finish(row + r, column + c, x, words[i & 1]);
  }
}

// Tells the blocks that copy into this one that its group has read a stage: a thread of the group each.
template <typename T>
struct TmaRelease {
  u32 thread, empty;  // of the group; the other block's barriers

  MEMBER TmaRelease(const TmaSchedule<T>& schedule, const TmaMemory<T::STAGES, T::STAGE>& memory) {
    thread = threadIdx.x & 127;
    u32 peer = 0;
    if (thread < T::PEERS)
      peer = thread < T::DOWN
                 ? schedule.rank_of(thread, schedule.across)
                 : schedule.rank_of(schedule.down, thread - T::DOWN + (thread - T::DOWN >= schedule.across));
    empty = T::CLUSTER > 1 && thread < T::PEERS ? shared_of(memory.empty, peer) : memory.empty;
  }
  MEMBER void operator()(int stage) const {
    if (T::CLUSTER > 1) {
      if (thread < T::PEERS) barrier_arrive_far(empty + 8 * stage);
    } else if (thread == 0) {
      barrier_arrive(empty + 8 * stage);
    }
  }
};

// A group's: multiplies all tiles of the block, and finishes them. `base`: the shared address of
// shared_memory.
template <typename T, int VECTOR, bool BF16, int WORDS, typename Fetch, typename Finish>
DEV void multiply_tiles(const TmaSchedule<T>& schedule, const TmaProblem& p,
                        const TmaMemory<T::STAGES, T::STAGE>& memory, u32 base, u32 rank, u32& batch,
                        Fetch fetch, Finish finish) {
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
  TmaStages<T::STAGES, T::STAGE, TmaRelease<T>> stages(memory, TmaRelease<T>(schedule, memory));
  wait_for_earlier();
#pragma unroll 1
  for (u32 tile = schedule.first; tile < schedule.tiles; tile += schedule.stride) {
    int row, column;
    schedule.place(tile, row, column, batch);
    TmaGroup<T, BF16> group(memory);
    run_pipeline(stages, group, schedule.steps);
    if constexpr (T::SPLIT == 1) {
      float* own = (float*)(shared_memory + (memory.end() - base)) + warp * T::OWN;
      PieceStore<T, VECTOR, WORDS, TmaGroup<T, BF16>, Fetch, Finish> pieces(group, own, row + warp * 16,
                                                                            column, p.m, p.n, fetch, finish);
      pieces.fetch_piece(0);
      group_wait<0>();
      stages.finish();
      pieces.store();
    } else {
      float* sums = (float*)(shared_memory + (memory.memory - base));
      store_split<T, VECTOR, WORDS>(group, sums, rank, schedule.part, row, column, p.m, p.n, fetch, finish);
    }
  }
}

// The blocks are a multiple of the cluster, of GROUPS groups of warps and the warp that copies; `batch` is
// that of the tile that fetch and finish are called for.
template <int M, int N, int STAGES, int B_COUNT, int DOWN, int ACROSS, int SPLIT, bool B_ALONG, int VECTOR,
          bool BF16, bool EARLY, int WORDS, typename Fetch, typename Finish>
DEV void bulk_product(u32 block, u32 blocks, int m, int n, int k, int batches, int a_row_run, int a_k_run,
                      const BulkMap* a, const BulkMap* const* b, u32& batch, Fetch fetch, Finish finish) {
  using T = TmaTiles<M, N, STAGES, B_COUNT, DOWN, ACROSS, SPLIT, B_ALONG>;
  const TmaProblem problem = {m, n, k, batches, a_row_run, a_k_run, a, b};
  const TmaSchedule<T> schedule(block, blocks, problem);
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
  const u32 base = shared_address(shared_memory);
  const TmaMemory<STAGES, T::STAGE> memory((base + 1023u) & ~1023u);
  if (threadIdx.x == 0) memory.init(T::GROUPS * T::PEERS);
  if (threadIdx.x == 4 * T::GROUPS * 32) {
    prefetch_map(a);
#pragma unroll
    for (int j = 0; j < B_COUNT; ++j) prefetch_map(b[j]);
  }
  if (T::CLUSTER > 1)
    cluster_barrier();
  else
    __syncthreads();

  if (warp == 4 * T::GROUPS) {
    if ((threadIdx.x & 31) == 0) TmaCopier<T, EARLY>(schedule, problem, memory).run();
    __syncwarp();
  } else if (warp < 4 * T::GROUPS) {
    multiply_tiles<T, VECTOR, BF16, WORDS>(schedule, problem, memory, base, block % T::CLUSTER, batch, fetch,
                                           finish);
  }
  // No block ends while others of its cluster may still tell it something.
  if (SPLIT > 1 && warp >= 4 * T::GROUPS) cluster_barrier();
  if (T::CLUSTER > 1) cluster_barrier();
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_TMA_CUH_
