// Matmuls of many rows by weights of fewer bits (core/packed_weights.h; sm_90a): wgmma, whose 64 rows are
// columns of B that a warpgroup unpacks in registers, and whose columns are rows of A, which lie in shared
// memory. Persistent: copies into stages go on while sums become results.
#ifndef RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_TILES_CUH_
#define RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_TILES_CUH_

#include "compiler/codegen/cuda/device/async_copy.cuh"
#include "compiler/codegen/cuda/device/cluster.cuh"
#include "compiler/codegen/cuda/device/dependent_launch.cuh"
#include "compiler/codegen/cuda/device/operand_tile.cuh"
#include "compiler/codegen/cuda/device/packed_tiles_unpack.cuh"
#include "compiler/codegen/cuda/device/tma.cuh"
#include "compiler/codegen/cuda/device/tma_layout.h"
#include "compiler/codegen/cuda/device/wgmma_registers.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Where B lies, by matrix: maps of codes and, unless a column has one, of scales and zero points; else these
// themselves.
struct PackedTilesB {
  const TensorMap* const* codes;
  const TensorMap* const* scale_maps;
  const TensorMap* const* zero_maps;
  const char* const* scales;
  const char* const* zeros;
};

// Which tiles a block has, and which steps of K, in a room that all its warps share.
template <PackedTiles MATMUL>
struct PackedTilesBlock {
  static constexpr int SPLIT_K = MATMUL.split_k, STAGE = MATMUL.stage(), STAGES = MATMUL.stages;
  static constexpr int STEPS = MATMUL.steps(), EACH = (STEPS + SPLIT_K - 1) / SPLIT_K;

  const TmaExtents problem;
  const u32 rank, first, stride, tall, tiles;
  const int begin, end;                 // steps of K
  const u32 base, memory, full, empty;  // shared addresses: of all, of stages, of barriers

  MEMBER PackedTilesBlock(u32 block, u32 blocks, TmaExtents problem)
      : problem(problem),
        rank(block % SPLIT_K),
        first(block / SPLIT_K),
        stride(blocks / SPLIT_K),
        tall((problem.m + MATMUL.m - 1) / MATMUL.m),
        tiles(tall * ((problem.n + MATMUL.n - 1) / MATMUL.n)),
        begin((int)rank * EACH),
        end(begin + EACH < STEPS ? begin + EACH : STEPS),
        base(shared_address(shared_memory)),
        memory((base + 1023u) & ~1023u),
        full(memory + STAGES * STAGE),
        empty(full + 8 * STAGES) {}

  // Where a tile begins. Blocks at work together have bands of rows, and share what they read.
  MEMBER void place(u32 tile, int& m, int& n) const {
    constexpr u32 BAND = 8;
    const u32 wide = tiles / tall, band = tile / (BAND * wide), in = tile - band * BAND * wide,
              rows_left = tall - band * BAND, height = rows_left < BAND ? rows_left : BAND;
    m = (int)(band * BAND + in % height) * MATMUL.m;
    n = (int)(in / height) * MATMUL.n;
  }
  MEMBER float* behind_barriers() const { return (float*)(shared_memory + (empty + 8 * STAGES - base)); }
};

// What fills stages: a thread that asks for boxes of A and of B, or four warps of which one does and all make
// A.
template <PackedTiles MATMUL, typename MakeA>
struct PackedTilesCopies {
  static constexpr int M = MATMUL.m, STAGE_K = MATMUL.stage_k;

  const PackedTilesBlock<MATMUL>& own;
  const PackedTilesB b;
  const TensorMap* const a;
  const MakeA a_at;
  const int thread;

  // Codes, scales and zero points of columns from n on.
  MEMBER void copy_b(int stage, int n, int step) const {
    constexpr int RUN = MATMUL.code_run();
    const u32 to = own.memory + stage * MATMUL.stage(), barrier = own.full + 8 * stage;
    mbarrier_expect(barrier, MATMUL.filled());
#pragma unroll
    for (int j = 0; j < MATMUL.b_count; ++j) {
#pragma unroll
      for (int r = 0; r < MATMUL.tile_codes(); r += RUN)
        tma_copy<false>(to + MATMUL.codes_box(j, r), b.codes[j], barrier, 0,
                        (step * MATMUL.tile_codes() + r) / 4, n / 16, 0);
      if (MATMUL.by_column()) continue;
      const int block = step * STAGE_K / MATMUL.format.block * 16;
      tma_copy<false>(to + MATMUL.scales_box(j), b.scale_maps[j], barrier, 0, block, n / 16, 0);
      if (MATMUL.format.zeros)
        tma_copy<false>(to + MATMUL.zeros_box(j), b.zero_maps[j], barrier, 0, block, n / 16, 0);
    }
  }
  MEMBER void fill_a(int stage, int m, int step) const {
    const u32 to = own.memory + stage * MATMUL.stage();
    if constexpr (MATMUL.a_made) {
#pragma unroll 4
      for (int p = thread; p < M * STAGE_K / 8; p += 128) {
        const int line = p / 8 % M, k = step * STAGE_K + p / (8 * M) * 64 + p % 8 * 8;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (m + line < own.problem.m && k < MATMUL.k) x = a_at(m + line, k);
        store_shared_16(to + p / (8 * M) * (M * 128) + swizzled<128>(line, p % 8), x);
      }
      fence_proxy_async();
      mbarrier_arrive(own.full + 8 * stage);
    } else if (thread == 0) {
#pragma unroll
      for (int run = 0; run < STAGE_K / 64; ++run) {
        const int x = step * STAGE_K + run * 64;
        tma_copy<false>(to + run * (M * 128), a, own.full + 8 * stage, 0, x % own.problem.k_run,
                        m % own.problem.m_run, x / own.problem.k_run, m / own.problem.m_run, 0);
      }
    }
  }
  MEMBER void run() const {
    int m, n, stage = 0, ahead = 0;  // ahead: stages whose B was asked for early
    u32 phase = 1;
    if (MATMUL.b_constant && own.first < own.tiles) {
      own.place(own.first, m, n);
      for (; ahead < MATMUL.stages && own.begin + ahead < own.end; ++ahead) {
        if (thread == 0) copy_b(ahead, n, own.begin + ahead);
      }
    }
    wait_for_earlier();
    for (u32 tile = own.first; tile < own.tiles; tile += own.stride) {
      own.place(tile, m, n);
      for (int step = own.begin; step < own.end; ++step) {
        if (ahead > 0) {
          --ahead;
        } else {
          mbarrier_wait(own.empty + 8 * stage, phase);
          if (thread == 0) copy_b(stage, n, step);
        }
        fill_a(stage, m, step);
        if (++stage == MATMUL.stages) {
          stage = 0;
          phase ^= 1;
        }
      }
    }
    __syncwarp();
  }
};

// What a warp adds up: of its 16 columns all the tile's rows.
template <PackedTiles MATMUL>
struct PackedTilesSums {
  static constexpr int M = MATMUL.m, N = MATMUL.n, GROUPS = MATMUL.groups(), THREADS = GROUPS * 128;
  static constexpr int SLICES = MATMUL.half_k() / 16, PITCH = MATMUL.pitch(), LANES = MATMUL.lanes;
  static constexpr bool BY_COLUMN = MATMUL.by_column();
  typedef PackedTilesUnpack<MATMUL> Unpack;

  const PackedTilesBlock<MATMUL>& own;
  const int warp, lane;
  int stage;
  u32 phase;
  float acc[M / 2];
  float scale[2];  // a scale a column
  Unpack unpack;

  MEMBER PackedTilesSums(const PackedTilesBlock<MATMUL>& own, int warp)
      : own(own), warp(warp), lane(threadIdx.x & 31), stage(0), phase(0) {}

  MEMBER void begin(const PackedTilesB& b, int n) {
#pragma unroll
    for (int x = 0; x < M / 2; ++x) acc[x] = 0;
    if constexpr (BY_COLUMN) {
      constexpr int LAST = (MATMUL.columns + 15) / 16 - 1;
      const int wanted = n / 16 + warp % (N / 16), tile = wanted < LAST ? wanted : LAST;
      const i64 at = (i64)tile * 16 + (lane >> 2) * 2;
      const char *scales = b.scales[0], *zeros = b.zeros[0];
#pragma unroll
      for (int j = 1; j < MATMUL.b_count; ++j) {
        const bool own_matrix = warp / (N / 16) == j;
        const char* const scales_j = b.scales[j];
        scales = own_matrix ? scales_j : scales;
        if (MATMUL.format.zeros) zeros = own_matrix ? b.zeros[j] : zeros;
      }
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        scale[c] = packed_scale<Unpack::SCALE_TYPE>(scales, at + c);
        if (MATMUL.format.zeros) unpack.column_zeros[c] = packed_scale<Unpack::SCALE_TYPE>(zeros, at + c);
      }
    }
  }
  // Every warp says when it has read a stage.
  MEMBER void release(int stage) const {
    if (lane == 0) mbarrier_arrive(own.empty + 8 * stage);
  }
  // Begins to multiply half a stage. The half before goes on; of the one before that the fragments are free.
  template <int HALF>
  MEMBER void multiply(u32 (*fragments)[4], int last) {
    const u32 from = own.memory + stage * MATMUL.stage();
    unpack.template load<HALF>(from, warp);
    wgmma_wait<1>();
    if (HALF == 1 && last >= 0) release(last);
    unpack.unpack(fragments);
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < SLICES; ++s) {
      constexpr int FIRST = HALF * SLICES;
      wgmma_registers<M, MATMUL.format.bf16>(
          acc, fragments[s], wgmma_descriptor(from + (FIRST + s) / 4 * (M * 128) + (FIRST + s) % 4 * 32, 0));
    }
    wgmma_commit();
  }
  // A tile's steps.
  MEMBER void run() {
    u32 fragments[2][SLICES][4];
    int last = -1;
#pragma unroll 1
    for (int step = own.begin; step < own.end; ++step) {
      mbarrier_wait(own.full + 8 * stage, phase);
      multiply<0>(fragments[0], last);
      multiply<1>(fragments[1], last);
      last = stage;
      if (++stage == MATMUL.stages) {
        stage = 0;
        phase ^= 1;
      }
    }
    wgmma_wait<0>();
    if (last >= 0) release(last);
  }
  // Of ROWS rows from `first` on, to memory that has them from row `to` on: [B][rows of all][PITCH].
  template <int ROWS, int ALL>
  MEMBER void store(float* sums, int first) const {
    float* at = sums + warp / (N / 16) * (ALL * PITCH) + warp % (N / 16) * 16 + (lane >> 2);
#pragma unroll
    for (int x = 0; x < ROWS / 2; ++x) {
      const int row = x / 4 * 8 + (lane & 3) * 2 + (x & 1), column = x >> 1 & 1;
      const float sum = acc[first / 2 + x];
      at[row * PITCH + column * 8] = BY_COLUMN ? sum * scale[column] : sum;
    }
  }
  MEMBER static void barrier() { asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory"); }
};

// Sums of one block to results, a piece of rows after another; what the next piece reads besides is asked for
// ahead.
template <PackedTiles MATMUL, typename Fetch, typename Epilogue>
DEV void packed_tiles_store(const PackedTilesSums<MATMUL>& sums, int m, int n, Fetch fetch,
                            Epilogue epilogue) {
  typedef PackedTilesSums<MATMUL> Sums;
  constexpr int PIECE = MATMUL.piece(), LANES = MATMUL.lanes, VECTORS = MATMUL.n / LANES,
                CALLS = (PIECE * VECTORS + Sums::THREADS - 1) / Sums::THREADS, WORDS = MATMUL.words;
  u32 words[2][CALLS][WORDS > 0 ? WORDS : 1];
  float* const memory = sums.own.behind_barriers();
  auto spot = [&](int i, int c, int& row, int& column) -> bool {
    const int p = i * Sums::THREADS + threadIdx.x;
    row = p / VECTORS;
    column = p % VECTORS * LANES;
    return p < PIECE * VECTORS && m + c + row < sums.own.problem.m && n + column < sums.own.problem.n;
  };
  auto fetch_piece = [&](int c) {
#pragma unroll
    for (int i = 0; i < CALLS; ++i) {
      int row, column;
      if (spot(i, c, row, column)) fetch(m + c + row, n + column, words[c / PIECE & 1][i]);
    }
  };
  fetch_piece(0);
#pragma unroll
  for (int c = 0; c < MATMUL.m; c += PIECE) {
    Sums::barrier();
    sums.template store<PIECE, PIECE>(memory, c);
    if (c + PIECE < MATMUL.m) fetch_piece(c + PIECE);
    Sums::barrier();
#pragma unroll
    for (int i = 0; i < CALLS; ++i) {
      int row, column;
      if (!spot(i, c, row, column)) continue;
      float x[MATMUL.b_count * LANES];
#pragma unroll
      for (int j = 0; j < MATMUL.b_count; ++j)
        load_shared<LANES>(memory + (j * PIECE + row) * Sums::PITCH + column, x + j * LANES);
      epilogue(m + c + row, n + column, x, words[c / PIECE & 1][i]);
    }
  }
}

// Sums of the blocks of a cluster that split K: each has its share of the rows. All stages are free: every
// block of a cluster has one tile.
template <PackedTiles MATMUL, typename Fetch, typename Epilogue>
DEV void packed_tiles_join(const PackedTilesSums<MATMUL>& sums, int m, int n, Fetch fetch,
                           Epilogue epilogue) {
  typedef PackedTilesSums<MATMUL> Sums;
  constexpr int M = MATMUL.m, SHARE = M / MATMUL.split_k, LANES = MATMUL.lanes, VECTORS = MATMUL.n / LANES,
                WORDS = MATMUL.words;
  float* const memory = (float*)(shared_memory + (sums.own.memory - sums.own.base));
  Sums::barrier();
  sums.template store<M, M>(memory, 0);
  cluster_barrier();
#pragma unroll 1
  for (int p = threadIdx.x; p < SHARE * VECTORS; p += Sums::THREADS) {
    const int row = (int)sums.own.rank * SHARE + p / VECTORS, column = p % VECTORS * LANES;
    if (m + row >= sums.own.problem.m || n + column >= sums.own.problem.n) continue;
    u32 words[WORDS > 0 ? WORDS : 1];
    fetch(m + row, n + column, words);
    float x[MATMUL.b_count * LANES];
#pragma unroll
    for (int j = 0; j < MATMUL.b_count; ++j)
      sum_blocks<MATMUL.split_k, LANES>(shared_address(memory + (j * M + row) * Sums::PITCH + column), 0, 1,
                                        x + j * LANES);
    epilogue(m + row, n + column, x, words);
  }
}

// a: A's map; with a_made a_at(m, k): 8 elements of A along K. `fetch` reads ahead what `epilogue` needs.
template <PackedTiles MATMUL, typename MakeA, typename Fetch, typename Epilogue>
DEV void matmul_packed_tiles(u32 block, u32 blocks, TmaExtents problem, const TensorMap* a, PackedTilesB b,
                             MakeA a_at, Fetch fetch, Epilogue epilogue) {
  constexpr int GROUPS = MATMUL.groups(), SPLIT_K = MATMUL.split_k;
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
  const PackedTilesBlock<MATMUL> own(block, blocks, problem);
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < MATMUL.stages; ++s) {
      mbarrier_init(own.full + 8 * s, MATMUL.a_made ? 129 : 1);
      mbarrier_init(own.empty + 8 * s, 4 * GROUPS);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (threadIdx.x == GROUPS * 128) {
    if (!MATMUL.a_made) prefetch_tensor_map(a);
#pragma unroll
    for (int j = 0; j < MATMUL.b_count; ++j) prefetch_tensor_map(b.codes[j]);
  }
  if (SPLIT_K > 1)
    cluster_barrier();
  else
    __syncthreads();
  if (warp >= 4 * GROUPS) {
    if constexpr (MATMUL.registers > 0) fewer_registers<kCopierRegisters>();
    const int thread = (int)threadIdx.x - GROUPS * 128;
    if (MATMUL.a_made || thread < 32) PackedTilesCopies<MATMUL, MakeA>{own, b, a, a_at, thread}.run();
    if (SPLIT_K > 1) cluster_barrier();
  } else {
    if constexpr (MATMUL.registers > 0) more_registers<MATMUL.registers>();
    wait_for_earlier();
    PackedTilesSums<MATMUL> sums(own, warp);
#pragma unroll 1
    for (u32 tile = own.first; tile < own.tiles; tile += own.stride) {
      int m, n;
      own.place(tile, m, n);
      sums.begin(b, n);
      sums.run();
      if constexpr (SPLIT_K == 1)
        packed_tiles_store<MATMUL>(sums, m, n, fetch, epilogue);
      else
        packed_tiles_join<MATMUL>(sums, m, n, fetch, epilogue);
    }
  }
  // No block ends while others of its cluster may still reach its shared memory.
  if (SPLIT_K > 1) cluster_barrier();
}

#endif

#endif  // RONDO_COMPILER_CODEGEN_CUDA_DEVICE_MATMUL_PACKED_TILES_CUH_
